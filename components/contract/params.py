"""Params: the base of every parameter schema, of components and of operators alike."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ConfigDict

from components.contract.errors import InputError
from components.contract.heads import LANGUAGE, Head


class Params(BaseModel):
    """Base of every parameter schema: frozen, unknown keys refused, a docstring under each field."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False, validate_default=True
    )

    asks: ClassVar[tuple[str, ...]] = ()
    """For an operator's config: the input ports whose further models the operator queries and requires."""
    asks_heads: ClassVar[frozenset[Head]] = LANGUAGE
    """What these models must give: log-probabilities and texts, or scores."""

    def local_files(self) -> list[Path]:
        """Return the local files that are read, so that the stage reruns when they change."""
        return []

    def s3_addresses(self) -> list[str]:
        """Return the s3:// addresses that are read, so that the stage reruns when what is there changes."""
        named = getattr(self, "paths", ())  # of a source's config: the fields that name files
        return [value for name in named if str(value := getattr(self, name)).startswith("s3://")]


def check_part(name: str, part: tuple[float, float]) -> None:
    """Raise InputError for bounds that are no part of [0, 1)."""
    low, high = part
    if not 0 <= low < high <= 1:
        raise InputError(f"{name}: expected 0 <= low < high <= 1, found {list(part)}")
