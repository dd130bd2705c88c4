"""How a recipe names an operator, and how the name becomes a call with a validated config.

An operator is a function with a keyword-only `config` parameter annotated with a Params subclass. In a recipe it is
written as its name, or as {name: ..., <config keys>}.

A field of parameters or of a config is known to hold an operator of slot "source" by its name: source, sources or
train_source. A field of any other name is told of by the config's `uses`. What an operator imports counts for a stage's
fingerprint; a module whose results depend on the version of an installed package says so by a constant of literals,
VERSIONED_PACKAGES = ("math-verify",).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, model_serializer, model_validator

from components.contract.component import Params
from components.contract.errors import InputError, UnknownName
from components.contract.registry import operators

Keys = tuple[str | int, ...]
"""Keys and positions that lead to a value in parameters."""


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
    def modules(self) -> tuple[str, ...]:
        """Return the modules that the operator is registered in, is defined in and has its config from."""
        registered = operators(self.slot).entry(self.name).target.partition(":")[0]
        made = (self.function, inspect.unwrap(self.function), type(self.config))
        defined = [module for part in made if isinstance(module := getattr(part, "__module__", None), str)]
        return tuple(dict.fromkeys([registered, *defined]))


def with_used(bounds: Iterable[Bound]) -> Iterator[Bound]:
    """Yield operators and those that they call, at any depth, each choice once.

    Raises InputError for a config with an operator in a field whose slot neither its name nor `uses` tells.
    """
    queue = list(bounds)
    seen: list[Bound] = []
    while queue:
        bound = queue.pop(0)
        if bound in seen:
            continue
        seen.append(bound)
        yield bound
        told = bound.config.uses()
        found = []
        for path, spec, slot in named_operators(bound.config):
            if slot is not None:
                found.append(spec.resolve(slot))
            elif spec.name not in {used.name for used in told}:
                field = ".".join(map(str, path))
                raise InputError(
                    f"{bound.slot} operator {bound.name!r}: the name of field {field} tells no slot for the operator "
                    f"{spec.name!r}; let {type(bound.config).__name__}.uses() return it"
                )
        queue += [*told, *found]


def named_operators(config: BaseModel) -> Iterator[tuple[Keys, OperatorSpec, str | None]]:
    """Yield every operator in validated parameters: where it stands, how it is written, and its slot by its field.

    The slot is None where the name of the field is that of no slot.
    """
    for path, spec in _specs(config, ()):
        yield path, spec, _slot(str(next(step for step in reversed(path) if isinstance(step, str))))


def _specs(value: Any, path: Keys) -> Iterator[tuple[Keys, OperatorSpec]]:
    if isinstance(value, OperatorSpec):
        yield path, value
    elif isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _specs(vars(value)[name], (*path, name))
    elif isinstance(value, Mapping):
        for name, item in value.items():
            yield from _specs(item, (*path, str(name)))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _specs(item, (*path, index))


@cache
def _slot(field: str) -> str | None:
    word = field.rpartition("_")[2]
    for slot in (field, word, field.removesuffix("s"), word.removesuffix("s")):
        try:
            operators(slot)
        except UnknownName:
            continue
        return slot
    return None


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
