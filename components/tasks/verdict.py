"""What a verification came to."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

MAX_DETAIL_CHARS = 300


class Outcome(StrEnum):
    """What a verification came to."""

    RIGHT = "right"
    WRONG = "wrong"
    FAILED = "failed"


@dataclass(frozen=True)
class Verdict:
    """An outcome with its reason: why a response was not right, or what broke."""

    outcome: Outcome
    detail: str = ""
    graded: float | None = None
    """The grade of a verifier that gives partial credit, from 0 to 1; unset, the outcome is the grade."""
    raised: bool = False
    """Whether it is wrong because a user's verifier raised on it, one that can judge the item's own answer."""
    timed_out: bool = False
    """Whether the verifier ran out of time: wrong if it can judge the item's reference in time, else failed."""

    def __post_init__(self) -> None:
        if self.graded is not None and not 0 <= self.graded <= 1:  # also refuses NaN
            raise ValueError(f"a grade of {self.graded} is not between 0 and 1")

    @property
    def score(self) -> float:
        """Return the grade in [0, 1]; without one 1 for right and 0 for wrong. A failed verification has none: 0."""
        return float(self.right) if self.graded is None or self.failed else self.graded

    @property
    def right(self) -> bool:
        """Return whether the response was judged right."""
        return self.outcome is Outcome.RIGHT

    @property
    def failed(self) -> bool:
        """Return whether there was no judgement at all."""
        return self.outcome is Outcome.FAILED


RIGHT = Verdict(Outcome.RIGHT)


def wrong(detail: str, *, graded: float | None = None) -> Verdict:
    """Return the verdict WRONG with its reason and any partial credit."""
    return Verdict(Outcome.WRONG, detail, graded)


def failed(detail: str) -> Verdict:
    """Return the verdict FAILED with what broke."""
    return Verdict(Outcome.FAILED, detail[:MAX_DETAIL_CHARS])


class BrokenItem(Exception):
    """Raised by a verifier when the item itself is unusable: missing data, a senseless reference."""

    timed_out = False
    """Whether the verifier ran out of time on the reference."""


class ReferenceTimeout(BrokenItem):
    """Raised where the reference cannot be judged in time either."""

    timed_out = True
