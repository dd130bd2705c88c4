"""CodeV-R1's rate of sampling: how many prompts are drawn, and what the estimate becomes, worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from components.rl.batch.batch import Batch
from tests.rl.build import batch_of, context, operator

GOOD, EQUAL = [1.0, 0.0], [0.0, 0.0]


def drawn(*useful: bool) -> Batch:
    return batch_of([GOOD if one else EQUAL for one in useful])


def test_the_estimate_sets_how_many_are_drawn_at_once() -> None:
    memory: dict[str, Any] = {}
    asked: list[int] = []

    def more(count: int) -> Batch:
        asked.append(count)
        return drawn(*[True] * (count // 2), *[False] * (count - count // 2))

    bound = operator("filter", "adaptive_rate", decay=0.5)
    first = context(memory=memory)
    # nothing is known: one batch of 4, of which 1 is useful; e becomes .5 * 1 + .5 * .25
    assert bound(drawn(True, False, False, False), more, first).num_prompts == 1
    assert asked == [] and memory == {"share": 0.625}
    assert first.metrics == {"useful_share": 0.25, "expected_share": 1.0, "drawn_for_used": 4.0}
    second = context(1, memory=memory)
    # ceil(4 / .625) = 7, so 3 more, of which 1 is useful: 3 of 7
    assert bound(drawn(True, True, False, False), more, second).num_prompts == 3
    assert asked == [3] and memory["share"] == pytest.approx(0.5 * 0.625 + 0.5 * 3 / 7)
    assert second.metrics["drawn_for_used"] == pytest.approx(7 / 3)


def test_leftovers_go_and_the_rate_is_bounded() -> None:
    asked: list[int] = []

    def more(count: int) -> Batch:
        asked.append(count)
        return drawn(*[True] * count)

    bound = operator("filter", "adaptive_rate", least=0.25)
    kept = bound(drawn(False, True), more, context(memory={"share": 0.001}))
    assert asked == [6] and kept.num_prompts == 2 and not bool(kept.group_is_equal(kept.outcomes).any())


def test_refills_go_on_at_the_same_rate_until_the_batch_is_full() -> None:
    asked: list[int] = []

    def more(count: int) -> Batch:
        asked.append(count)
        return drawn(*[False] * count) if len(asked) < 2 else drawn(True, *[False] * (count - 1))

    bound = operator("filter", "adaptive_rate", first=0.5, decay=1.0, max_refills=5)
    memory: dict[str, Any] = {}
    assert bound(drawn(False, False), more, context(memory=memory)).num_prompts == 2
    assert asked == [2, 4, 2] and memory["share"] == 0.5  # 2 / .5 - 2; 2 missing; 1 missing
    # a step without a useful group reports no ratio
    nothing = context(memory={})
    assert operator("filter", "adaptive_rate")(drawn(False), more, nothing).num_prompts == 0
    assert "drawn_for_used" not in nothing.metrics
