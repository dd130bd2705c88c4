"""The licences that a recipe refuses, and what is still to be asked about them when a stage has ended."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Pattern = Annotated[str, Field(min_length=1, max_length=100)]


class LicenseRule(BaseModel):
    """Which licences are refused: identifiers as the hub and SPDX write them, or patterns such as cc-by-nc-*."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    refuse: tuple[Pattern, ...] = ()
    unknown: Literal["allow", "refuse"] = "allow"
    """What becomes of data and models that state no licence."""
    declared: dict[str, Pattern] = Field(default_factory=dict)
    """Name of a source, or address of an input -> its licence, where it is not stated there, or is another for you."""

    def of(self, names: Iterable[str]) -> str | None:
        """Return the licence that is declared for something under any of its names."""
        return next((self.declared[name] for name in names if name in self.declared), None)

    def refusal(self, what: str, stated: Iterable[str]) -> str | None:
        """Return why something with these licences is refused, in words; None if it is not."""
        licenses = list(stated)
        if not licenses:
            return f"{what} states no licence" if self.unknown == "refuse" else None
        for license in licenses:
            for pattern in self.refuse:
                if fnmatchcase(license.strip().lower(), pattern.lower()):
                    return f"{what} is under {license[:100]}, which {pattern!r} refuses"
        return None


class LicenseGate(BaseModel):
    """What a stage's end has to ask: all that was not known before it ran."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rule: LicenseRule
    open_sources: dict[int, str] = Field(default_factory=dict)
    """Position of a source that may state its licence when it is read -> its name."""
