"""Metrics of rollout `roles`, over all draws of a step."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from components.rl.step.role_turns import Played, answering

TEXTS, TOO_LONG = "partner_texts", "questions_too_long"


def draw_number(memory: dict[str, Any], step: int) -> int:
    """Return how many draws the step had before, and forget those of earlier steps; a filter may draw again."""
    if memory.get("step") != step:
        memory.clear()
        memory.update(step=step, draws=0, sums={})
    memory["draws"] += 1
    return int(memory["draws"]) - 1


def tell(played: Sequence[Played], metrics: dict[str, float], sums: dict[str, list[float]]) -> None:
    """Add the shares of right texts, and of answers that a later answer mends and spoils, to those of the step.

    `sums` holds the total and the number of values behind each share so far.
    """
    theirs = sum(len(one.texts) for one in played if one.turn.by == "partner")
    for name, number in ((TEXTS, theirs), (TOO_LONG, sum(one.num_too_long for one in played))):
        metrics[name] = metrics.get(name, 0.0) + number
    for name, values in _values(played):
        known = [value for value in values if not math.isnan(value)]
        total, count = sums.get(name, [0.0, 0])
        sums[name] = [total + sum(known), count + len(known)]
        if sums[name][1]:
            metrics[name] = sums[name][0] / sums[name][1]


def _values(played: Sequence[Played]) -> Iterator[tuple[str, list[float]]]:
    for number, one in enumerate(played):
        role, earlier = one.turn.role, answering(played[:number])
        yield f"{role}_right", [text.worth[role] for text in one.texts]
        if one.turn.judges is None and earlier:
            pairs = [(text.worth[earlier[-1]], text.worth[role]) for text in one.texts]
            yield f"{role}_mended", [now for then, now in pairs if then == 0]
            yield f"{role}_spoiled", [1 - now for then, now in pairs if then == 1]
