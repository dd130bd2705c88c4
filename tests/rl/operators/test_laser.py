"""LaSeR: scores, loss and mixed advantages against the released formulas in plain loops."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from components.contract.errors import InputError
from components.modeling.models.policy import Policy
from components.rl.batch.batch import RIGHT, Batch
from components.rl.slots import AFTER
from components.rl.step.context import SlotContext
from components.rl.step.scoring import micro_rows
from components.rl.step.states import score_with_after
from tests.rl.build import batch_of, context, near, operator
from tests.rl.step.test_learner import LENGTHS, REWARDS, assert_equal, gradients, learner, slots_of, tiny
from tests.rl.step.test_states import TOKEN, behind_by_hand

FINISHED = [True, True, False, True, True, True, True, False, True]
BATCH = replace(batch_of(REWARDS, LENGTHS), finished=torch.tensor(FINISHED))


def now(policy: Policy, **changes: Any) -> SlotContext:
    return context(policies=SimpleNamespace(trained=policy), collector=SimpleNamespace(max_tokens=20), **changes)


def annotated(policy: Policy, given: SlotContext, **config: Any) -> Batch:
    return operator("annotate", "self_reward", token=TOKEN, **config)(BATCH, given)


def test_scores_are_measured_from_the_first_steps_mean() -> None:
    policy = tiny()
    given = now(policy)
    found = annotated(policy, given, scale=0.5)
    behind = behind_by_hand(policy, BATCH).tolist()
    reference = statistics.fmean(value for value, ends in zip(behind, FINISHED, strict=True) if ends)
    assert given.memory["reference"] == pytest.approx(reference, abs=1e-5)
    expected = [0.5 * (value - reference) if ends else 0.0 for value, ends in zip(behind, FINISHED, strict=True)]
    assert near(found.extras["self_reward_s"], expected, 1e-5)
    assert found.extras[AFTER].tolist() == [TOKEN] * 9 and near(found.extras["self_scale_s"], [0.5] * 9)
    with torch.no_grad():
        for _, weight in policy.trainable():
            weight.mul_(2)
    later = annotated(policy, given, scale=0.5)
    assert near(later.extras["self_reference_s"], [reference] * 9, 1e-5), "measured once, at the start"
    assert annotated(policy, now(policy), reference=-23.0).extras["self_reference_s"].tolist() == [-23.0] * 9


def test_how_well_scores_tell_right_from_wrong_is_a_metric() -> None:
    given = now(tiny())
    found = annotated(tiny(), given)
    scores, right = found.extras["self_reward_s"].tolist(), (BATCH.outcomes == RIGHT).tolist()
    rows = [(score, own) for score, own, ends in zip(scores, right, FINISHED, strict=True) if ends]
    pairs = [(a, b) for a, right in rows for b, other in rows if right and not other]
    assert given.metrics["self_reward_auroc"] == pytest.approx(sum(a > b for a, b in pairs) / len(pairs))
    share = sum(right for _, right in rows) / len(rows)
    assert given.metrics["always_right_f1"] == pytest.approx(2 * share / (1 + share))
    assert given.metrics["self_reward_f1"] == 0.0


def loss_by_hand(policy: Policy, batch: Batch, *, coefficient: float, balanced: bool, scale: float) -> float:
    """The released actor: mean over all responses of (r - R)^2, finished ones alone, reweighted by class."""
    total, behind = 0.0, behind_by_hand(policy, batch).tolist()
    right = [outcome == RIGHT for outcome in batch.outcomes.tolist()]
    finished = batch.finished.tolist()
    reference = float(batch.extras["self_reference_s"][0])
    for row, ends in enumerate(finished):
        if not ends:
            continue
        same = sum(other == right[row] and done for other, done in zip(right, finished, strict=True))
        weight = sum(finished) / (2 * same) if balanced else 1.0
        total += weight * (scale * (behind[row] - reference) - float(right[row])) ** 2
    return coefficient * total / len(finished)


@pytest.mark.parametrize("balanced", [True, False])
@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_loss_is_the_released_actors(balanced: bool, temperature: float) -> None:
    policy = tiny("float64")
    regularizer = {"name": "self_reward_mse", "coefficient": 0.7, "balanced": balanced, "warmup_steps": 0}
    slots = slots_of("laser", regularizers=[regularizer])
    made, batch = learner(policy, slots), annotated(policy, now(policy), reference=-3.0)
    weighted = made._weighted(batch, context().settings)
    (bound,) = slots.regularizers
    scores = score_with_after(policy, weighted, temperature=temperature)
    found = bound(scores, weighted, context(minibatch=weighted))
    total = float((found.loss.detach() * made._weights(bound, weighted)).sum())
    assert total == pytest.approx(loss_by_hand(policy, batch, coefficient=0.7, balanced=balanced, scale=0.1), rel=1e-6)
    early = operator("regularizer", "self_reward_mse", warmup_steps=3)
    assert float(early(scores, weighted, context(step=2, minibatch=weighted)).loss.abs().sum()) == 0
    assert float(early(scores, weighted, context(step=3, minibatch=weighted)).loss.abs().sum()) > 0


def test_passes_of_any_size_give_one_gradient_which_lowers_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    silent = {"name": "ppo_clip", "clip_low": 0.2, "clip_high": 0.2, "denominator": "tokens"}
    slots = slots_of("laser", objective=silent, regularizers=[{"name": "self_reward_mse", "warmup_steps": 0}])
    batch = annotated(tiny(), now(tiny()), reference=-3.0)
    first, metrics = gradients(learner(tiny(), slots), batch, monkeypatch)
    second, same = gradients(learner(tiny(), slots, micro=9), batch, monkeypatch)
    assert len(micro_rows(batch, 9)) > 2 and metrics["self_reward_error"] == pytest.approx(same["self_reward_error"])
    assert_equal(first, second)
    policy = tiny()
    made = learner(policy, slots)
    fast = replace(context().settings, learning_rate_scale=30.0)
    errors = [
        made.learn([batch], fast, lambda bound: context(), first_update=10)["self_reward_error"] for _ in range(9)
    ]
    assert errors[-1] < 0.8 * errors[0]


def test_advantages_are_mixed_where_scores_spread() -> None:
    scores = [0.9, 0.1, -4.0, 0.5, 0.5, 0.2, 0.9, 7.0, 0.4]
    batch = BATCH.with_extras(self_reward_s=torch.tensor(scores)).with_advantages(torch.linspace(-1, 1, 9))
    given = context(step=5)
    found = operator("advantage", "mix_self", share=0.3, least_spread=0.1, warmup_steps=5)(batch, given)
    expected: list[float] = []
    for group in range(3):
        rows = [row for row in range(9) if int(batch.group[row]) == group]
        cut = [min(max(scores[row], 0.0), 1.0) for row in rows]
        mean, spread = statistics.fmean(cut), statistics.stdev(cut)
        for row, score in zip(rows, cut, strict=True):
            advantage = float(torch.linspace(-1, 1, 9)[row])
            own = advantage if spread <= 0.1 else (score - mean) / spread
            expected.append(0.7 * advantage + 0.3 * own)
    starts = (batch.lengths.cumsum(0) - 1).tolist()
    assert near(found[starts], expected, 1e-5)
    assert torch.equal(found, batch.to_tokens(found[starts])) and given.metrics["mixed_share"] == pytest.approx(7 / 9)
    early = operator("advantage", "mix_self", warmup_steps=6)(batch, context(step=5))
    assert torch.equal(early, batch.advantages)


def test_a_token_outside_of_the_vocabulary_is_refused() -> None:
    with pytest.raises(InputError, match="token 11 of a vocabulary of 11"):
        operator("annotate", "self_reward", token=11)(BATCH, now(tiny()))
    none = BATCH.select(torch.zeros(9, dtype=torch.bool))
    found = operator("annotate", "self_reward", token=1)(none, now(tiny()))
    assert found.num_responses == 0 and math.isfinite(float(found.extras["self_reward_s"].sum()))
