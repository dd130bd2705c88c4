"""Filter score_rank: what each strategy keeps, by hand and by a loop; draws in proportion; refusals; a whole step."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.errors import InputError
from components.measure.filtration import middle_weights, rank_weights
from components.rl.batch.batch import Batch
from components.rl.step.context import SlotContext
from tests.rl.build import batch_of, context, near, operator
from tests.rl.tiny_loop import loop_of, write_model


def refused(_: int) -> Batch:
    raise AssertionError("nothing is to be refilled")


def kept(batch: Batch, now: SlotContext | None = None, **config: Any) -> Batch:
    found = operator("filter", "score_rank", **config)(batch, refused, now or context())
    assert isinstance(found, Batch)
    return found


BATCH = [[0.5, 2.0, -1.0, 1.0], [3.0, 1.0]]


def test_best_and_best_worst_by_hand() -> None:
    batch = batch_of(BATCH)
    assert kept(batch, strategy="bon").texts == ("r1", "r4")
    now = context()
    assert kept(batch, now, strategy="bw").texts == ("r1", "r2", "r4", "r5")
    assert now.metrics["kept_share"] == pytest.approx(4 / 6)
    assert now.metrics["kept_gap"] == pytest.approx(5 / 4 - 6.5 / 6)


def test_best_random_keeps_the_best_and_any_other_one() -> None:
    batch, seen = batch_of([[0.5, 2.0, -1.0, 1.0]]), Counter[str]()
    for step in range(300):
        found = kept(batch, context(step, 400), strategy="br").texts
        assert len(found) == 2 and "r1" in found
        seen.update(set(found) - {"r1"})
    assert set(seen) == {"r0", "r2", "r3"} and min(seen.values()) > 60
    assert kept(batch, context(5), strategy="br").texts == kept(batch, context(5), strategy="br").texts


def test_weights_by_hand() -> None:
    rewards = [0.5, 2.0, -1.0, 1.0]
    assert rank_weights(rewards, "pow") == pytest.approx([1 / 16, 1.0, 1 / 4, 1 / 4])
    assert rank_weights(rewards, "pow", power=1.0) == pytest.approx([1 / 4, 1.0, 1 / 2, 1 / 2])
    assert rank_weights([2.0, 2.0, 0.0, 1.0], "max_min") == [1.0, 1.0, 1.0, 0.0]
    assert rank_weights(rewards, "max_random") == [0.4, 1.0, 0.4, 0.4]
    assert rank_weights(rewards, "br") == pytest.approx([1 / 3, 1.0, 1 / 3, 1 / 3])
    assert middle_weights(rewards) == [1.0, 0.0, 0.0, 1.0]
    assert rank_weights([0.0, 0.0], "pow") == [1.0, 1.0], "nothing to choose by"
    assert rank_weights([3e38, -3e38], "pow", power=40.0) == [1.0, 1.0], "powers do not overflow"
    assert rank_weights([1.0, 1.0, 1.0], "bw") == [1.0, 0.0, 1.0], "two of equal ones, not one"
    assert rank_weights([1.0], "br") == rank_weights([1.0], "bw") == [1.0]


@given(
    rewards=st.lists(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=1, max_size=5), min_size=1, max_size=4),
    strategy=st.sampled_from(["bon", "br", "bw", "pow", "max_min", "max_random"]),
    step=st.integers(0, 9),
)
def test_any_batch_keeps_every_group_and_the_ends_it_names(
    rewards: list[list[float]], strategy: str, step: int
) -> None:
    batch = batch_of(rewards)
    found = kept(batch, context(step), strategy=strategy)
    assert found.num_prompts == batch.num_prompts
    assert [prompt.item.id for prompt in found.prompts] == [prompt.item.id for prompt in batch.prompts]
    for group, own in enumerate(rewards):
        left = found.rewards[found.group == group].tolist()
        size = {"bon": 1, "br": min(2, len(own)), "bw": min(2, len(own))}.get(strategy, len(own))
        assert len(left) == size and set(left) <= set(own)
        if strategy in ("bon", "br", "bw"):
            assert max(own) in left
        if strategy == "bw" and len(own) > 1:
            assert sorted(left) == [min(own), max(own)]
        if strategy == "max_min":
            assert set(left) <= {min(own), max(own)}


def test_draws_are_in_proportion_to_the_weights_and_may_repeat() -> None:
    batch = batch_of([[1.0, 2.0, 0.0, 3.0]])
    counts = Counter[str]()
    for step in range(500):
        found = kept(batch, context(step, 600), strategy="pow", keep=8)
        assert found.num_responses == 8, "more than there are: some are learned from twice"
        counts.update(found.texts)
    # 1, 4, 0 and 9 of 14 of 4000 draws
    assert counts["r2"] == 0
    assert [counts[name] / 4000 for name in ("r0", "r1", "r3")] == pytest.approx([1 / 14, 4 / 14, 9 / 14], abs=0.025)


def test_over_the_whole_batch_ranks_are_those_of_the_step() -> None:
    batch = batch_of([[1.0, 2.0], [5.0, 0.0]])
    found = kept(batch, strategy="max_min", scope="batch", keep=50)
    assert set(found.texts) == {"r2", "r3"} and found.num_prompts == 1 and found.num_responses == 50


def test_scores_that_are_all_equal_keep_responses_all_the_same() -> None:
    assert kept(batch_of([[0.0, 0.0, 0.0]]), strategy="bw").texts == ("r0", "r2")
    assert kept(batch_of([[0.0, 0.0, 0.0]]), strategy="pow").num_responses == 3


def test_an_empty_batch_stays_empty() -> None:
    batch = batch_of([[0.0]])
    assert kept(batch.select(torch.zeros(1, dtype=torch.bool))).num_responses == 0


def test_settings_that_have_no_effect_are_refused() -> None:
    for bad, why in (
        ({"strategy": "bw", "keep": 3}, "keeps 2; `keep` is for those that draw"),
        ({"strategy": "bon", "scope": "batch"}, "ranks within a prompt"),
        ({"strategy": "worst"}, "strategy"),
        ({"power": 0}, "power"),
    ):
        with pytest.raises((InputError, ValidationError), match=why):
            operator("filter", "score_rank", **bad)


def test_conversations_are_refused_in_one_line() -> None:
    batch = batch_of([[0.0, 1.0]])
    with pytest.raises(InputError, match=r"filter score_rank works on single responses"):
        kept(replace(batch, trace=torch.tensor([0, 0])))


def test_a_step_learns_from_what_is_kept_alone(tmp_path: Path) -> None:
    write_model(tmp_path / "policy")
    loop = loop_of(
        tmp_path / "policy",
        method="ppo",
        filters=[{"name": "score_rank", "strategy": "bw"}],
        rewards=["verifier", {"name": "prompt_offset", "spread": 0.0}],
    )
    metrics = loop.step()
    assert metrics["kept_share"] == 0.5 and metrics["num_samples"] == 16
    assert near([metrics["lost_prompts"]], [0.0])
