"""The rollout record, the pass-rate ledger and the diagnostics."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from components.modeling.packing.logprobs import TokenScores
from components.modeling.training.optimizer import Update
from components.rl.batch.batch import FAILED, RIGHT, WRONG, Batch
from components.rl.batch.token_loss import TokenLoss
from components.rl.step.diagnostics import (
    UpdateTally,
    answer_entropy,
    divergence,
    sample_metrics,
    signal_share,
    tally_part,
)
from components.rl.step.ledger import PassRates
from components.rl.step.record import RolloutRecord
from components.rl.step.state import LoopState
from tests.rl.build import batch_of, near, state_again


def with_failure(rewards: list[list[float]]) -> Batch:
    """Return a batch whose last response could not be verified."""
    batch = batch_of(rewards)
    outcomes, values = batch.outcomes.clone(), batch.rewards.clone()
    outcomes[-1], values[-1] = FAILED, torch.nan
    return replace(batch, outcomes=outcomes, rewards=values)


def test_the_record_browses_a_spread_and_keeps_the_latest_right_ones() -> None:
    record = RolloutRecord(browse_samples=3, right_samples=2)
    record.add(with_failure([[1.0, 0.0, 0.0], [1.0, 0.0]]), 1, browse=True)
    rows = list(record.rows())
    # browsed: the failed one, one in the middle, the best; kept: both right ones
    assert [(row["response"], row["outcome"], row["reward"]) for row in rows] == [
        ("r4", "failed", None),
        ("r2", "wrong", 0.0),
        ("r0", "right", 1.0),
        ("r3", "right", 1.0),
    ]
    assert set(rows[0]) == {
        "prompt_id",
        "domain",
        "step",
        "prompt",
        "response",
        "reward",
        "outcome",
        "num_tokens",
        "verifier",
        "answer",
        "data",
    }
    record.add(batch_of([[0.0, 1.0]]), 2, browse=False)
    kept = [row["response"] for row in record.rows() if row["outcome"] == "right"]
    assert kept == ["r3", "r1"] or kept == ["r0", "r3", "r1"]
    assert len(record.right_rows()) == 2


def test_a_repeated_right_response_is_kept_once_as_the_latest() -> None:
    record = RolloutRecord(browse_samples=0, right_samples=2)
    for step, rewards in enumerate([[[1.0, 1.0]], [[1.0, 0.0]], [[0.0, 0.0, 1.0]]], start=1):
        record.add(batch_of(rewards), step, browse=False)
    assert [(row["response"], row["step"]) for row in record.rows()] == [("r0", 2), ("r2", 3)]


def test_the_record_survives_json() -> None:
    state = LoopState(record=RolloutRecord(browse_samples=2, right_samples=9), step=3, num_samples=7)
    state.record.add(with_failure([[1.0, 0.0], [1.0, 1.0]]), 1, browse=True)
    state.ledger.add("p0", "A", right=1)
    state.memory["sampler/0/uniform"] = {"draws": 2}
    back = state_again(state, browse_samples=2, right_samples=9)
    assert back.to_json() == state.to_json()
    assert list(back.record.rows()) == list(state.record.rows())


def test_the_ledger_counts_three_outcomes() -> None:
    ledger = PassRates()
    ledger.add("a", "A", right=1)
    ledger.add("a", "A", wrong=3)
    ledger.add("b", "A", failed=1)
    a, b = ledger
    assert (a.num_samples, a.num_right, a.num_wrong, a.num_failed, a.pass_rate) == (4, 1, 3, 0, 0.25)
    assert b.pass_rate is None and ledger.get("c") is None
    assert PassRates(ledger.rows()).rows() == ledger.rows()


def test_sample_metrics_by_hand() -> None:
    batch = replace(
        with_failure([[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]),
        texts=("<think>1<answer>1", "2", "3", "4", "5", "6"),
        finished=torch.tensor([True, True, True, False, True, True]),
    )
    found = sample_metrics(batch)
    assert found["num_samples"] == 6 and found["num_failed"] == 1
    assert found["pass_rate"] == pytest.approx(3 / 5) and found["reward_mean"] == pytest.approx(3 / 5)
    assert found["signal_share"] == pytest.approx(1 / 3)
    assert found["trace_share"] == pytest.approx(1 / 6) and found["truncated_share"] == pytest.approx(1 / 6)
    assert found["length_right"] == found["length_wrong"] == 2


def test_answer_entropy_is_over_the_distinct_answers_of_a_group() -> None:
    texts = ("<think>1<answer>7", "<think>2<answer>7", "<answer>8", "<answer>9", "<answer>5", "so<answer>5")
    batch = replace(batch_of([[1.0, 1.0, 0.0, 0.0], [1.0, 1.0]]), texts=texts)
    # first group 1/2, 1/4, 1/4; second group one answer
    assert answer_entropy(batch) == pytest.approx((1.5 * math.log(2) + 0.0) / 2)
    assert sample_metrics(batch)["answer_entropy"] == answer_entropy(batch)
    assert math.isnan(answer_entropy(batch.select(batch.rewards > 9)))


def test_the_update_tells_its_divergences() -> None:
    batch = replace(batch_of([[1.0, 0.0]], [[1, 1]]), old_logprobs=torch.tensor([0.5, 0.25]).log())
    scores = TokenScores(torch.tensor([0.25, 0.5]).log(), None)

    def metrics(part: Batch, clipped: tuple[float, float] = (0.0, 0.0)) -> dict[str, float]:
        tally = UpdateTally()
        loss = TokenLoss(torch.zeros(2), {"clip_fraction": torch.tensor(clipped)})
        tally.add_part(tally_part(part, scores, [loss], torch.zeros(())))
        tally.add_update(Update(grad_norm=1.0, learning_rate=1.0, clipped=False))
        return tally.metrics()

    log2 = math.log(2)
    found = metrics(batch)
    # ratios 1/2 and 2; d = log old - log new = log 2, -log 2; exp(-d) - 1 + d
    assert near([found[f"update_kl_{k}"] for k in ("k1", "k2", "k3")], [0.0, log2**2 / 2, (0.5 + 2 - 2) / 2])
    assert (found["ratio_min"], found["ratio_max"]) == (pytest.approx(0.5), pytest.approx(2.0))
    assert found["ess"] == pytest.approx(2.5**2 / (2 * (0.25 + 4)))
    assert "reference_kl_k1" not in found
    clipped = metrics(batch.with_advantages(torch.tensor([-1.0, 1.0])), (1.0, 0.0))
    assert [clipped[f"clip_fraction{side}"] for side in ("", "_low", "_high")] == [0.5, 0.5, 0.0]
    found = metrics(replace(batch, reference_logprobs=torch.tensor([0.5, 0.5]).log()))
    assert near([found[f"reference_kl_{k}"] for k in ("k1", "k2", "k3")], [-log2 / 2, log2**2 / 4, (2 - 1 - log2) / 2])


def test_means_over_nothing_are_left_out() -> None:
    found = sample_metrics(batch_of([[0.0, 0.0]]))
    assert "length_right" not in found and found["length_wrong"] == 2
    assert all(math.isfinite(value) for value in found.values())
    nothing = with_failure([[0.0]])
    assert "pass_rate" not in sample_metrics(nothing)


def test_signal_share_counts_groups_not_responses() -> None:
    assert signal_share(batch_of([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0]])) == 0.5


def test_divergence_by_hand() -> None:
    found = divergence(torch.tensor([0.5, 0.25]).log(), torch.tensor([0.25, 0.5]).log())
    log2 = math.log(2)
    assert near(list(found.values()), [0.0, log2**2 / 2, (0.5 + 2 - 2) / 2])
    assert {RIGHT, WRONG, FAILED} == {0, 1, 2}
