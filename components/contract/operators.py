"""How a recipe names an operator, and how the name becomes a call with a validated config.

An operator is a function with a keyword-only `config` parameter annotated with a Params subclass. In a recipe it is
written as its name, or as {name: ..., <config keys>}.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_serializer, model_validator

from components.contract.component import Params
from components.contract.errors import InputError
from components.contract.registry import operators


class OperatorRefused(InputError):
    """The settings of an operator do not fit its config; what does not is kept, so that it can be placed in a file."""

    def __init__(self, slot: str, name: str, config_type: type[Params], error: ValidationError) -> None:
        self.name, self.config_type, self.error = name, config_type, error
        lines = "; ".join(f"{'.'.join(map(str, e['loc'])) or name}: {e['msg']}" for e in error.errors())
        known = ", ".join(config_type.model_fields) or "none"
        super().__init__(f"{slot} operator {name!r}: {lines} (parameters: {known})")


class OperatorSpec(BaseModel):
    """An operator by name with the config keys that the user set."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @model_serializer
    def _as_written(self) -> dict[str, Any]:
        return {"name": self.name, **self.settings}

    @property
    def settings(self) -> dict[str, Any]:
        """Return the config keys that the user set, as written."""
        return dict(self.__pydantic_extra__ or {})

    def resolve(self, slot: str) -> Bound:
        """Look the name up in `slot`, validate its config and return the operator bound to it.

        Raises UnknownName for the name and OperatorRefused for the config, each naming slot and operator.
        """
        function = operators(slot).get(self.name)
        config_type = config_of(function, f"{slot} operator {self.name!r}")
        try:
            config = config_type.model_validate(self.settings)
        except ValidationError as error:
            raise OperatorRefused(slot, self.name, config_type, error) from error
        return Bound(slot=slot, name=self.name, function=function, config=config)


@dataclass(frozen=True)
class Bound:
    """An operator with its config: call it with the slot's other arguments."""

    slot: str
    name: str
    function: Callable[..., Any]
    config: Params

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator with its config."""
        return partial(self.function, config=self.config)(*args, **kwargs)

    @property
    def module(self) -> str:
        """Return the module that defines the operator, for the fingerprint."""
        return self.function.__module__


def config_of(function: Callable[..., Any], owner: str) -> type[Params]:
    """Return the Params subclass that annotates the operator's keyword-only `config`; raise InputError if none."""
    parameter = _signature(function).parameters.get("config")
    if parameter is None or parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        raise InputError(f"{owner}: its function takes no keyword-only 'config'")
    annotation = parameter.annotation
    if isinstance(annotation, str):  # only this one is resolved: the others may name torch types that are not imported
        annotation = inspect.unwrap(function).__globals__.get(annotation)
    if not (inspect.isclass(annotation) and issubclass(annotation, Params)):
        raise InputError(f"{owner}: its 'config' is annotated with {annotation!r}, not with a Params subclass")
    return annotation


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature: to read it takes longer than all other checks of an operator together."""
    return inspect.signature(function)
