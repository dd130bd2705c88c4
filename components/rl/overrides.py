"""Parameters of the rl stage that override slots of its method, one for each slot.

They are apart from the other parameters because the docstrings of a module that reads one count as code.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, Field, create_model

from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.rl.presets import check_specs
from components.rl.slots import step_slots

P = TypeVar("P", bound=Params)


def _known(key: str, given: Any) -> Any:
    check_specs(key, given)
    return given


def with_overrides(params: type[P]) -> type[P]:
    """Return the class with a parameter more for every slot, which takes the place of the method's own choice."""
    fields: dict[str, Any] = {}
    for key, slot in step_slots().items():
        operators = tuple[OperatorSpec, ...] if slot.many else OperatorSpec
        summary = f"Override of the method's slot: {slot.summary[0].lower()}{slot.summary[1:]}"
        doc = f"{summary}; the whole list." if slot.many else f"{summary}."
        checked = AfterValidator(partial(_known, key))
        fields[key] = (Annotated[operators, slot, checked] | None, Field(default=None, description=doc))
    return create_model(
        params.__name__, __base__=params, __module__=params.__module__, __doc__=params.__doc__, **fields
    )
