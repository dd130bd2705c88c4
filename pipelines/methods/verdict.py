"""Verdicts: how effects over seeds relate to a claim, judged at looks whose errors add up to a bound."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from components.measure.intervals import Interval
from pipelines.methods.looks import Look, seeds_needed, tail


class Verdict(StrEnum):
    """What was found of one primary measure."""

    SEEN = "seen"
    OPPOSITE = "opposite"
    NO_EFFECT = "no effect"
    UNDECIDED = "undecided"
    PRECONDITION_ABSENT = "precondition absent"
    OPERATOR_INACTIVE = "operator inactive"
    INVALID = "invalid"


NOTHING_CONCLUDED = (Verdict.UNDECIDED, Verdict.PRECONDITION_ABSENT, Verdict.OPERATOR_INACTIVE, Verdict.INVALID)
"""Verdicts that say nothing about the claim."""


@dataclass(frozen=True)
class Decision:
    """The verdict on one measure, and the look that gave it."""

    verdict: Verdict
    interval: Interval
    """Of the deciding look, at its confidence; of the last look if undecided."""
    look: Look
    p: float
    """Of the claim's being false, corrected for the looks (the least p of a look over its share); at most 1."""
    more_seeds: int | None = None
    """How many seeds would do, if undecided."""


def decide(direction: str, floor: float, effects: Sequence[float], looks: Sequence[Look]) -> Decision | None:
    """Return the verdict of the first look that gives one, or `undecided` at the last; None if looks are to come.

    higher: `seen` if the mean effect lies beyond +floor, `opposite` beyond -floor, `no effect` if it lies within
    +-floor, each as the look's interval says. lower is its mirror image. not_lower: `seen` above -floor, `opposite`
    below it; not_higher mirrors. same: `seen` within +-floor, `opposite` beyond it on either side.
    """
    p = 1.0
    for look in looks:
        if len(effects) < look.seeds:
            return None
        seen = _signed(direction, effects[: look.seeds])
        p = min(p, _claim_p(direction, floor, seen) / look.share)
        verdict = judge(direction, floor, effects[: look.seeds], look.alpha)
        if verdict is not Verdict.UNDECIDED:
            return Decision(verdict, look.interval(effects), look, p)
    more = seeds_needed(effects[: look.seeds], floor, look)
    return Decision(Verdict.UNDECIDED, look.interval(effects), look, p, more)


def judge(direction: str, floor: float, effects: Sequence[float], alpha: float) -> Verdict:
    """Return the verdict of one look on all given effects, erring on each side with probability `alpha` at most."""
    if not all(map(math.isfinite, effects)):
        return Verdict.UNDECIDED
    values = _signed(direction, effects)
    mirrored = [-value for value in values]
    above, below = tail(values, floor) <= alpha, tail(mirrored, floor) <= alpha
    not_below, not_above = tail(values, -floor) <= alpha, tail(mirrored, -floor) <= alpha
    if direction == "same":
        seen, opposite, none = not_below and not_above, above or below, False
    elif direction in ("higher", "lower"):
        seen, opposite, none = above, below, not_below and not_above
    else:
        seen, opposite, none = not_below, below, False
    if seen:
        return Verdict.SEEN
    return Verdict.OPPOSITE if opposite else Verdict.NO_EFFECT if none else Verdict.UNDECIDED


def _claim_p(direction: str, floor: float, values: Sequence[float]) -> float:
    """Return the p-value of the claim's being false, of signed effects."""
    if not all(map(math.isfinite, values)):
        return 1.0
    if direction == "same":
        return max(tail(values, -floor), tail([-value for value in values], -floor))
    return tail(values, floor if direction in ("higher", "lower") else -floor)


def _signed(direction: str, effects: Sequence[float]) -> list[float]:
    """Return the effects such that the claim is that they are higher."""
    sign = -1.0 if direction in ("lower", "not_higher") else 1.0
    return [sign * effect for effect in effects]


def holds_by_holm(p_values: Sequence[float], alpha: float) -> list[bool]:
    """Return which claims hold when all of them together err with probability `alpha` at most (Holm 1979)."""
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    holds = [False] * len(p_values)
    for rank, index in enumerate(order):
        if p_values[index] > alpha / (len(p_values) - rank):
            break
        holds[index] = True
    return holds
