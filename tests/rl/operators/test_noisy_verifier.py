"""A verifier that errs: how often, on which side, and the same again after a resume."""

from __future__ import annotations

import pytest
import torch

from components.rl.batch.batch import RIGHT
from tests.rl.build import batch_of, context, operator

REWARDS = [[1, 0] * 50] * 20


def test_without_noise_it_is_the_verifier() -> None:
    batch = batch_of(REWARDS)
    silent = operator("reward", "noisy_verifier", false_positives=0, false_negatives=0, right=2, wrong=-1)
    assert (
        silent(batch, context()).tolist()
        == operator("reward", "verifier", right=2, wrong=-1)(batch, context()).tolist()
    )


def test_each_side_errs_at_its_own_rate() -> None:
    batch, now = batch_of(REWARDS), context(seed=5)
    reward_s = operator("reward", "noisy_verifier", false_positives=0.1, false_negatives=0.3)(batch, now)
    right = batch.outcomes == RIGHT
    assert float(reward_s[~right].mean()) == pytest.approx(0.1, abs=0.03)  # of 1000: three deviations
    assert float(1 - reward_s[right].mean()) == pytest.approx(0.3, abs=0.045)
    assert now.metrics["flipped_share"] == pytest.approx(0.2, abs=0.03)
    assert torch.equal(batch.outcomes, batch_of(REWARDS).outcomes)


def test_every_batch_has_flips_of_its_own_and_a_resumed_run_the_same() -> None:
    batch, noisy = batch_of(REWARDS), operator("reward", "noisy_verifier")
    now = context()
    first, second = noisy(batch, now), noisy(batch, now)
    assert not torch.equal(first, second)
    assert torch.equal(noisy(batch, context(memory={"batches": 1})), second)
    assert not torch.equal(noisy(batch, context(seed=1)), first)


def test_certain_errors_turn_every_verdict() -> None:
    batch = batch_of([[1, 0, 1]])
    always = operator("reward", "noisy_verifier", false_positives=1, false_negatives=1)
    assert always(batch, context()).tolist() == [0.0, 1.0, 0.0]
