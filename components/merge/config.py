"""Base configs of mergers: which models they take, and how much each counts."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import ClassVar, TypeVar

from pydantic import Field, field_validator

from components.contract.errors import InputError
from components.contract.params import Params

T = TypeVar("T")


class MergerConfig(Params):
    """Base of merger configs."""

    needs_base: ClassVar[bool] = False
    """Whether it merges differences from the model at input `base`."""
    least_models: ClassVar[int] = 1
    most_models: ClassVar[int | None] = None

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the optional input ports that these settings require."""
        return ("base",) if type(self).needs_base else ()

    def check_count(self, count: int) -> None:
        """Raise InputError if it cannot merge so many models."""
        least, most = type(self).least_models, type(self).most_models
        if count < least or (most is not None and count > most):
            wanted = f"{least}" if most == least else f"{least} or more" if most is None else f"{least} to {most}"
            raise InputError(f"it merges {wanted} models, and input 'models' has {count}")


class WeightedConfig(MergerConfig):
    """Base of mergers that sum models, or their differences from the base, by weights."""

    weights: tuple[float, ...] = ()
    """How much each model counts, in the order of input `models`; empty: all alike."""
    by_tensor: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Pattern of tensor names -> the weights there, such as `*.mlp.*: [0, 1]`; the first that fits counts."""

    @field_validator("by_tensor")
    @classmethod
    def _some(cls, value: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
        if empty := [pattern for pattern, weights in value.items() if not weights]:
            raise ValueError(f"{empty[0]!r} has no weights")
        return value

    def weights_at(self, name: str, count: int) -> list[float]:
        """Return the weight of each of `count` models for a tensor."""
        given = first_fit(self.by_tensor, name, self.weights)
        return list(given) or [self.like_others(count)] * count

    def like_others(self, count: int) -> float:
        """Return the weight of each model where none is given."""
        return 1.0

    def check_count(self, count: int) -> None:
        """Raise InputError if it cannot merge so many models, or has another number of weights."""
        super().check_count(count)
        for where, given in {"weights": self.weights, **self.by_tensor}.items():
            if given and len(given) != count:
                raise InputError(f"{where} has {len(given)} numbers, and input 'models' has {count} models")


class TaskVectorConfig(WeightedConfig):
    """Base of mergers that add the models' differences from a base, their task vectors, to it."""

    needs_base: ClassVar[bool] = True
    scale: float = 1.0
    """Factor of what is added to the base (lambda)."""


def first_fit(patterns: Mapping[str, T], name: str, otherwise: T) -> T:
    """Return the value of the first pattern that fits a tensor's name."""
    return next((value for pattern, value in patterns.items() if fnmatchcase(name, pattern)), otherwise)
