"""How a recipe names an operator, and how the name becomes a call with a validated config.

An operator is a function with a keyword-only `config` parameter annotated with a Params subclass. In a recipe it is
written as its name, or as {name: ..., <config keys>}. One in a user's own file is named ./file.py:function; see
components/contract/operator_files.

A field of parameters or of a config that holds an operator declares its slot: `source: Annotated[OperatorSpec,
SOURCE]`. An operator's imports are part of a stage's fingerprint; a module whose results depend on the version of an
installed package declares that in a constant of literals, VERSIONED_PACKAGES = ("math-verify",).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from pydantic import BaseModel, ConfigDict, PrivateAttr, ValidationError, model_serializer, model_validator

from components.contract.errors import InputError, OperatorFailed, PosttrainError, schema_problems
from components.contract.operator_files.names import plain_name
from components.contract.operator_files.operator import FileOperator
from components.contract.params import Params
from components.contract.registry import operators, slot_named
from components.contract.slots import EMPTY, Slot

RAISED_BY = "raised_by_operator"
"""Attribute of an exception: the Bound that raised it."""
Keys = tuple[str | int, ...]
"""Path of keys and positions to a value in parameters."""


class OperatorRefused(InputError):
    """An operator's settings do not fit its config; keeps the errors, so that they can be located in a file."""

    def __init__(self, slot: Slot, name: str, config_type: type[Params], error: ValidationError) -> None:
        self.name, self.config_type, self.error = name, config_type, error
        lines = schema_problems(error, whole=name)
        known = ", ".join(config_type.model_fields) or "none"
        super().__init__(f"{slot} operator {plain_name(name)!r}: {lines} (parameters: {known})")


class OperatorMisfit(InputError):
    """An operator does not fit the others beside it; keeps its name, so that it can be located in a file."""

    def __init__(self, bound: Bound, message: str) -> None:
        self.name = bound.name
        super().__init__(message)


class OperatorSpec(BaseModel):
    """An operator by name with the config keys that the user set."""

    model_config = ConfigDict(frozen=True, extra="allow")

    name: str
    _slot: Slot | None = PrivateAttr(default=None)

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

    @property
    def slot(self) -> Slot | None:
        """Return its slot; None if the type of its field declares none."""
        return self._slot

    def in_slot(self, slot: Slot) -> OperatorSpec:
        """Return a copy of the operator that is bound to `slot`."""
        placed = self.model_copy()
        placed._slot = slot
        return placed

    def __eq__(self, other: object) -> bool:
        """Compare name and settings; the slot does not count."""
        return isinstance(other, OperatorSpec) and (self.name, self.settings) == (other.name, other.settings)

    def __hash__(self) -> int:
        """Hash the name: settings may hold lists and mappings."""
        return hash(self.name)

    def resolve(self, slot: Slot | str | None = None) -> Bound:
        """Look the name up in its slot or in the given one, validate the config and return the operator bound to it.

        Raises UnknownName for the name and OperatorRefused for the config, each naming slot and operator, and
        InputError where no slot is known.
        """
        found = slot_named(slot) if isinstance(slot, str) else slot or self._slot
        if found is None:
            raise InputError(
                f"operator {self.name!r} stands in a field without a slot; let the field's type say it: "
                "Annotated[OperatorSpec, SLOT]"
            )
        function = operators(found).get(self.name)
        owner = f"{found.name} operator {plain_name(self.name)!r}"
        config_type = config_of(function, owner)
        if self.name != EMPTY and not issubclass(config_type, found.config):
            raise InputError(f"{owner}: its config must be a {found.config.__name__}")
        try:
            config = config_type.model_validate(self.settings)
        except ValidationError as error:
            raise OperatorRefused(found, self.name, config_type, error) from error
        return Bound(slot=found, name=self.name, function=function, config=config)


@dataclass(frozen=True)
class Bound:
    """An operator with its config: call it with the slot's other arguments."""

    slot: Slot
    name: str
    function: Callable[..., Any]
    config: Params

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the operator with its config; an exception remembers which operator raised it."""
        try:
            return partial(self.function, config=self.config)(*args, **kwargs)
        except PosttrainError:
            raise
        except Exception as error:
            if not hasattr(error, RAISED_BY):  # the innermost of nested operators
                setattr(error, RAISED_BY, self)
            raise

    @property
    def file(self) -> FileOperator | None:
        """Return the function in a user's file that it is, if any."""
        return self.function if isinstance(self.function, FileOperator) else None

    @property
    def shown(self) -> str:
        """Return its name for people: file and function, or the registered name."""
        return self.file.shown if self.file else self.name

    def failed(self, what: str) -> OperatorFailed:
        """Return the error of an operator that returned something wrong; `what` completes "filter operator X ..."."""
        return self.file.failed(what) if self.file else OperatorFailed(f"{self.slot} operator {self.name!r} {what}")

    @property
    def modules(self) -> tuple[str, ...]:
        """Return the modules where the operator is registered, is defined and has its config.

        Of an operator in a file, they are posttrain's own that call it.
        """
        if self.file:
            return (self.file.target.partition(":")[0],)
        registered = operators(self.slot).entry(self.name).target.partition(":")[0]
        made = (self.function, inspect.unwrap(self.function), type(self.config))
        defined = [module for part in made if isinstance(module := getattr(part, "__module__", None), str)]
        return tuple(dict.fromkeys([registered, *defined]))


def with_used(bounds: Iterable[Bound]) -> Iterator[Bound]:
    """Yield operators and the operators that their configs name, at any depth, each once."""
    queue = list(bounds)
    seen: list[Bound] = []
    while queue:
        bound = queue.pop(0)
        if bound in seen:
            continue
        seen.append(bound)
        yield bound
        queue += operators_of(bound.config, f"{bound.slot} operator {bound.shown!r}")


def operators_of(config: BaseModel, owner: str) -> list[Bound]:
    """Return the operators in validated parameters.

    Raises an InputError that begins with `owner` for one in a field whose type declares no slot.
    """
    found = []
    for path, spec in named_operators(config):
        if spec.slot is None:
            raise InputError(
                f"{owner}: the type of field {'.'.join(map(str, path))} says no slot for the operator {spec.name!r}; "
                "write Annotated[OperatorSpec, SLOT]"
            )
        found.append(spec.resolve())
    return found


def named_operators(value: Any, path: Keys = ()) -> Iterator[tuple[Keys, OperatorSpec]]:
    """Yield every operator in validated parameters: its path, and its spec as written."""
    if isinstance(value, OperatorSpec):
        yield path, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from named_operators(vars(value)[name], (*path, name))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from named_operators(item, (*path, str(name)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from named_operators(item, (*path, index))


def config_of(function: Callable[..., Any], owner: str) -> type[Params]:
    """Return the Params subclass that annotates the operator's keyword-only `config`; raise InputError without one."""
    parameter = _signature(function).parameters.get("config")
    if parameter is None or parameter.kind is not inspect.Parameter.KEYWORD_ONLY:
        raise InputError(f"{owner}: its function takes no keyword-only 'config'")
    annotation = parameter.annotation
    if isinstance(annotation, str):  # resolve only this one: the others may name torch types that are not imported
        annotation = inspect.unwrap(function).__globals__.get(annotation)
    if not (inspect.isclass(annotation) and issubclass(annotation, Params)):
        raise InputError(f"{owner}: its 'config' is annotated with {annotation!r}, not with a Params subclass")
    return annotation


@cache
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature, cached: reading it takes longer than all other checks of an operator together."""
    return inspect.signature(function)
