"""The sampler whose set of prompts shrinks to the hardest."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from components.rl.batch.batch import Prompt
from components.rl.step.ledger import PassRates
from tests.rl.build import context, operator, prompt


class MaybeRates:
    """Stands for a collector whose probes have a known result, NaN where every verification fails."""

    def __init__(self, rates: Sequence[float], ledger: PassRates) -> None:
        self.rates, self.ledger = rates, ledger

    def probe(self, prompts: Sequence[Prompt], num_samples: int) -> Tensor:
        found = [self.rates[int(one.item.id[1:])] for one in prompts]
        for one, rate in zip(prompts, found, strict=True):
            right = 0 if math.isnan(rate) else round(rate * num_samples)
            failed = num_samples if math.isnan(rate) else 0
            self.ledger.add(one.item.id, "A", right=right, wrong=num_samples - right - failed, failed=failed)
        return torch.tensor(found)


def shrink(rates_by_step: Sequence[Sequence[float]], *, count: int, **config: Any) -> tuple[list[list[int]], Any]:
    pool, ledger, memory = [prompt(index) for index in range(len(rates_by_step[0]))], PassRates(), {}
    sampler = operator("sampler", "shrink_to_hardest", **{"num_samples": 8, "least": 1, "every": 2} | config)
    drawn, shown = [], []
    for step, rates in enumerate(rates_by_step):
        ledger.step = step
        now = context(step, ledger=ledger, memory=memory, collector=MaybeRates(rates, ledger))
        drawn.append(sampler(pool, count, now))
        memory = json.loads(json.dumps(memory))  # as a resumed stage gets it
        shown.append(now.metrics)
    return drawn, (shown, ledger)


def test_each_measurement_keeps_the_hardest_half_of_what_the_last_one_kept() -> None:
    start, later = [0.5, 0.0, 1.0, 0.25, 0.75, 0.125, 1.0, 1.0], [0.0, 1.0, 0.0, 0.5, 0.0, 0.25, 0.0, 0.0]
    drawn, (shown, ledger) = shrink([start, start, later, later, later], count=4)
    # 0, 1, 3 and 5 first; of them 0 and 5 once 1 and 3 are learned, though 2, 4, 6 and 7 got worse; then 0 alone
    assert [sorted(step) for step in drawn] == [[0, 1, 3, 5]] * 2 + [[0, 0, 5, 5]] * 2 + [[0] * 4]
    assert shown[0] == {"kept_prompts": 4.0, "kept_pass_rate": (0.5 + 0 + 0.25 + 0.125) / 4} and shown[1] == {}
    assert shown[2] == {"kept_prompts": 2.0, "kept_pass_rate": 0.125}
    assert sum(entry.num_samples for entry in ledger) == 8 * (8 + 4 + 2)  # only what is left is measured again


@given(st.lists(st.integers(0, 8), min_size=1, max_size=20), st.integers(1, 8), st.floats(0.1, 1), st.integers(1, 9))
def test_what_is_left_is_the_head_of_a_sorted_list(rights: list[int], least: int, keep: float, count: int) -> None:
    rates = [right / 8 for right in rights]
    drawn, (shown, _) = shrink([rates] * 2, count=count, keep=keep, least=least, every=1)
    left = list(range(len(rates)))
    for step, metrics in zip(drawn, shown, strict=True):
        number = min(len(left), max(least, math.ceil(keep * len(left))))
        left = sorted(left, key=lambda index: (rates[index], index))[:number]
        assert metrics["kept_prompts"] == number and set(step) <= set(left)
        assert max(Counter(step).values()) <= -(-count // number)  # in rounds


def test_prompts_that_cannot_be_judged_go_first() -> None:
    drawn, (shown, _) = shrink([[math.nan, 1.0, 0.5, math.nan]], count=4)
    assert sorted(drawn[0]) == [1, 1, 2, 2] and shown[0]["kept_pass_rate"] == 0.75
    drawn, (shown, _) = shrink([[math.nan, math.nan]], count=1)
    assert drawn == [[0]] and shown[0] == {"kept_prompts": 1.0}
