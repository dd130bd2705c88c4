"""BroRL: the trigger, what it changes, and the mass balance that it rests on."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from components.modeling.packing.logprobs import TokenScores
from components.rl.operators.schedules.broaden import slope
from components.rl.step.ledger import PassRates
from components.rl.step.settings import StepSettings
from tests.rl.build import batch_of, context, operator

START = StepSettings(prompts_per_step=16, group_size=4, max_new_tokens=8, temperature=1.0)


def test_the_slope_is_that_of_least_squares() -> None:
    assert slope([(0, 1.0), (1, 3.0), (2, 5.0)]) == pytest.approx(2.0)
    assert slope([(3, 1.0), (4, 0.0), (6, 1.0)]) == pytest.approx(1 / 14)  # centre 13/3, 2/3


def run(rates: list[float], **config: float) -> list[StepSettings]:
    """Return the settings of each step, and of one more, when the steps have these pass rates (in tenths)."""
    ledger, memory, found = PassRates(), {}, []
    bound = operator("schedule", "broaden", window=4, min_slope=0.01, group_factor=8, **config)
    for step, rate in enumerate([*rates, 0.0]):
        ledger.step = step
        now = context(step, 50, memory=memory, ledger=ledger, collector=SimpleNamespace(metrics={}))
        found.append(bound(START, now))
        assert now.collector.metrics == {"broad": float(found[-1] != START)}
        ledger.add("a", "A", right=round(10 * rate), wrong=10 - round(10 * rate))
    return found


def test_it_broadens_at_a_plateau_and_stays_broad() -> None:
    found = run([0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5, 0.5, 0.9, 1.0], prompt_factor=0.25)
    # steps 4 to 7 see rising windows (slope .1 .1 .06? .03), step 8 sees 0.5 four times
    assert found[:8] == [START] * 8
    broad = found[8]
    assert (broad.prompts_per_step, broad.group_size) == (4, 32)
    assert broad.learning_rate_scale == pytest.approx(2**0.5)  # 128 responses in the place of 64
    assert found[8:] == [broad] * 3


def test_it_waits_for_a_whole_window_and_keeps_one_prompt() -> None:
    assert run([0.5] * 3) == [START] * 4
    last = run([0.5] * 4, prompt_factor=0.01)[-1]
    assert (last.prompts_per_step, last.group_size) == (1, 32)
    assert last.learning_rate_scale == pytest.approx((32 / 64) ** 0.5)


NUM_ACTIONS, NUM_RIGHT = 60, 6


def right_mass(logits: Tensor) -> float:
    return float(logits.softmax(0)[:NUM_RIGHT].sum())


def update_by_formula(logits: Tensor, drawn: Tensor, rewards: Tensor) -> Tensor:
    """Return d Q / d eta of one policy-gradient step, Q the probability of all right actions, written out.

    With the gradient g = mean over samples of A_i (onehot(a_i) - p): dQ = sum over right j of p_j (g_j - p . g).
    """
    p = logits.softmax(0)
    gain = [0.0] * NUM_ACTIONS
    for action, reward in zip(drawn.tolist(), rewards.tolist(), strict=True):
        for j in range(NUM_ACTIONS):
            gain[j] += reward * ((j == action) - float(p[j])) / len(drawn)
    mean = sum(float(p[j]) * gain[j] for j in range(NUM_ACTIONS))
    return torch.tensor(sum(float(p[j]) * (gain[j] - mean) for j in range(NUM_RIGHT)))


def share_of_rises(num_samples: int, steps: int = 150) -> tuple[float, float]:
    """Return how often one update raises the mass of right actions, and the largest error of its first order."""
    generator = torch.Generator().manual_seed(num_samples)
    advantage, objective = operator("advantage", "group_mean"), operator("objective", "policy_gradient")
    rises, worst = 0, 0.0
    for _ in range(steps):
        logits = torch.randn(NUM_ACTIONS, generator=generator, dtype=torch.float64).requires_grad_()
        drawn = torch.multinomial(logits.detach().softmax(0), num_samples, replacement=True, generator=generator)
        rewards = (drawn < NUM_RIGHT).float()
        batch = batch_of([rewards.tolist()], [[1] * num_samples])
        batch = batch.with_advantages(advantage(batch, context()))
        scores = TokenScores(torch.log_softmax(logits, 0)[drawn], None)
        objective(scores, batch, context()).loss.mean().backward()
        before, rate = right_mass(logits.detach()), 1e-4
        change = right_mass(logits.detach() - rate * logits.grad) - before
        rises += change > 0
        if num_samples == 4:
            first_order = rate * float(update_by_formula(logits.detach(), drawn, batch.advantages))
            worst = max(worst, abs(change - first_order))
    return rises / steps, worst


def test_the_mass_of_right_actions_rises_more_surely_with_more_samples() -> None:
    (few, error), (more, _), (many, _) = (share_of_rises(n) for n in (4, 32, 256))
    assert few < more < many and many > 0.98 and few < 0.9
    assert error < 1e-7
