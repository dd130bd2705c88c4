"""Confidence that a response states: read from its tag, checked to be one."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from components.contract.params import Params

NUMBER = re.compile(r"\s*([+-]?(?:\d{1,12}(?:\.\d{0,12})?|\.\d{1,12}))\s*(%?)\s*", re.ASCII)


class Stated(StrEnum):
    """What a response says of its confidence."""

    GIVEN = "given"
    MISSING = "missing"
    """No tag, or no number in it."""
    OUTSIDE = "outside"
    """A number, and none from 0 to 1."""


@dataclass(frozen=True)
class Confidence:
    """A confidence as stated; the value is None unless it is given and lies in [0, 1]."""

    stated: Stated
    value: float | None = None


class ConfidenceSettings(Params):
    """How a response states its confidence."""

    tag: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]*$", max_length=40)] = "conf"
    """The tag before the number, without its brackets."""
    scale: float = Field(default=1.0, gt=0)
    """What the number is divided by: 10 for <conf>7, 100 for percentages without their sign."""

    def read(self, response: str) -> Confidence:
        """Return the confidence that a response states."""
        return stated_confidence(response, tag=self.tag, scale=self.scale)


def stated_confidence(response: str, *, tag: str = "conf", scale: float = 1.0) -> Confidence:
    """Return the number of the last `<tag>` over `scale`: up to `</tag>`, the next tag or the end of its line.

    "70%" is 0.7 whatever the scale. More than a number in the tag is no confidence: text is never guessed at.
    """
    _, mark, rest = response.rpartition(f"<{tag}>")
    if not mark:
        return Confidence(Stated.MISSING)
    written = re.split(r"[<\n]", rest, maxsplit=1)[0]
    found = NUMBER.fullmatch(written)
    if found is None:
        return Confidence(Stated.MISSING)
    value = float(found[1]) / (100.0 if found[2] else scale)
    return Confidence(Stated.GIVEN, value) if 0.0 <= value <= 1.0 else Confidence(Stated.OUTSIDE)
