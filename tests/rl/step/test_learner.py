"""The update: its gradient is that of the formula, however the batch is cut, padded or thinned out."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from components.contract.operators import OperatorSpec
from components.modeling.loading.load import new_policy
from components.modeling.models.model_config import ModelConfig
from components.modeling.models.policy import Policy
from components.modeling.packing.balance import rounds_cost
from components.modeling.training.optimizer import Optimizer, build_optimizer
from components.modeling.training.plain import TorchTrainer
from components.modeling.training.training_config import OptimizerConfig
from components.rl.batch.batch import Batch
from components.rl.presets import FOLDER, bind, load_preset, override
from components.rl.slots import Slots
from components.rl.step.context import SlotContext
from components.rl.step.learner import Learner, Passes
from components.rl.step.scoring import frozen_logprobs, micro_rows, score_tokens
from tests.rl import toy_operators
from tests.rl.build import batch_of, context

REWARDS = [[1.0, 0.0, 0.0], [1.0, 1.0], [0.0, 1.0, 1.0, 0.0]]
LENGTHS = [[3, 5, 2], [4, 1], [6, 2, 3, 1]]


def tiny(dtype: str = "float32") -> Policy:
    config = ModelConfig(vocab_size=11, width=16, layers=1, heads=2, mlp_width=24)
    return new_policy(config, tokenizer=None, seed=0, dtype=dtype)


def slots_of(method: str, **overrides: object) -> Slots:
    given = {
        slot: tuple(map(OperatorSpec.model_validate, value))
        if isinstance(value, list)
        else OperatorSpec.model_validate(value)
        for slot, value in overrides.items()
    }
    return bind(override(load_preset(method).slots, given))


def learner(policy: Policy, slots: Slots, *, micro: int = 10_000, minibatches: int = 1, epochs: int = 1) -> Learner:
    passes = Passes(minibatches, epochs, micro)
    optimizer = build_optimizer(policy.module, OptimizerConfig(clip_norm=None), total_steps=10)
    return Learner(policy, TorchTrainer(policy, optimizer), slots, passes)


def prepared(policy: Policy, slots: Slots) -> Batch:
    """Return a batch with advantages, old log-probabilities near the policy's, and a reference."""
    batch = batch_of(REWARDS, LENGTHS)
    own = frozen_logprobs(policy, batch, temperature=1.0, max_tokens=10_000)
    noise = torch.randn(len(own), generator=torch.Generator().manual_seed(1)) * 0.1
    batch = replace(batch, old_logprobs=own + noise, reference_logprobs=own - noise)
    for bound in (*slots.annotate, *slots.advantages):
        found = bound(batch, context())
        batch = found if isinstance(found, Batch) else batch.with_advantages(found)
    return batch


def gradients(
    made: Learner, batch: Batch, monkeypatch: pytest.MonkeyPatch, now: SlotContext | None = None
) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Return the gradient that reaches the optimiser, and the metrics."""
    kept: dict[str, Tensor] = {}
    step = Optimizer.step

    def spy(self: Optimizer, number: int, *, scale: float) -> object:
        kept.update({name: p.grad.clone() for name, p in made.policy.trainable() if p.grad is not None})
        return step(self, number, scale=scale)

    monkeypatch.setattr(Optimizer, "step", spy)
    settings = context().settings
    metrics = made.learn([batch], settings, lambda bound: now or context(), first_update=0)
    return kept, metrics


def assert_equal(first: dict[str, Tensor], second: dict[str, Tensor], tolerance: float = 1e-6) -> None:
    assert first.keys() == second.keys() and first
    for name, gradient in first.items():
        assert torch.allclose(gradient, second[name], atol=tolerance), name


HELD = {"cispo", "dhpo", "rapo-forward-kl"}
"""Methods that hold a weight constant, so that their gradient is not the slope of their loss."""
MORE_THAN_A_BATCH = {
    *("dsdr", "laser", "lp-reg", "oreo", "per-step-negatives", "ppo", "progrpo-arm", "recap", "rl-plus", "rover"),
    "verl-effective-rank",
}
"""Methods that read a critic, other logits, outside rows or the run: tested in files of their own."""
DIFFERENTIABLE = sorted({path.stem for path in FOLDER.glob("*.yaml")} - HELD - MORE_THAN_A_BATCH)


@pytest.mark.parametrize("method", DIFFERENTIABLE)
def test_the_gradient_equals_finite_differences(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    policy, slots = tiny("float64"), slots_of(method)
    made = learner(policy, slots)
    batch = prepared(policy, slots)
    batch = replace(batch, **{n: vars(batch)[n].double() for n in ("old_logprobs", "reference_logprobs", "advantages")})
    start = {name: p.detach().clone() for name, p in policy.trainable()}

    def loss() -> float:
        with torch.no_grad():
            weighted = made._with_gradient(made._weighted(batch, context().settings))
            scores = score_tokens(policy, weighted, temperature=1.0, entropy=slots.needs_entropy)
            parts = [bound(scores, weighted, context()).loss * made._weights(bound, weighted) for bound in slots.losses]
        return sum(float(part.sum()) for part in parts)

    found, _ = gradients(made, batch, monkeypatch)
    with torch.no_grad():
        for name, parameter in policy.trainable():
            parameter.copy_(start[name])
    generator = torch.Generator().manual_seed(2)
    for name, parameter in policy.trainable():
        flat, place = parameter.data.view(-1), int(torch.randint(parameter.numel(), (1,), generator=generator))
        kept, values = float(flat[place]), []
        for sign in (1, -1):
            flat[place] = kept + sign * 1e-5
            values.append(loss())
        flat[place] = kept
        slope = (values[0] - values[1]) / 2e-5
        assert float(found[name].view(-1)[place]) == pytest.approx(slope, abs=2e-6), name


@pytest.mark.parametrize("micro", [1, 12, 20])
@pytest.mark.parametrize(
    "method", ["grpo", "dapo", "dr-grpo", "gspo", "luspo", "cispo", "dhpo", "dcpo", "etr", "rl-plus"]
)
def test_forward_passes_of_any_size_give_one_gradient(method: str, micro: int, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = slots_of(method)
    whole, cut = tiny(), tiny()
    batch = prepared(whole, slots)
    expected, metrics = gradients(learner(whole, slots), batch, monkeypatch)
    found, same = gradients(learner(cut, slots, micro=micro), batch, monkeypatch)
    assert_equal(found, expected)
    assert same.keys() == metrics.keys()
    assert all(same[name] == pytest.approx(metrics[name], abs=1e-5) for name in metrics)


@pytest.mark.parametrize("denominator", ["tokens", "responses", "groups", "constant"])
def test_leaving_out_silent_responses_changes_nothing(denominator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # the middle group has equal rewards; a regularizer of weight 0 forces the full computation
    thin = slots_of("dapo", objective={"name": "ppo_clip", "denominator": denominator})
    full = slots_of(
        "dapo",
        objective={"name": "ppo_clip", "denominator": denominator},
        regularizers=[{"name": "entropy", "coefficient": 0.0}],
    )
    first, second = tiny(), tiny()
    batch = prepared(first, thin)
    expected, all_tokens = gradients(learner(first, full), batch, monkeypatch)
    found, fewer_tokens = gradients(learner(second, thin), batch, monkeypatch)
    assert_equal(found, expected)
    assert all_tokens["num_trained_tokens"] == 27 and fewer_tokens["num_trained_tokens"] == 22


def test_a_batch_without_signal_makes_no_update() -> None:
    policy, slots = tiny(), slots_of("dapo")
    before = policy.state()
    batch = batch_of([[1.0, 1.0], [0.0, 0.0]])
    metrics = learner(policy, slots).learn([batch], context().settings, lambda bound: context(), first_update=0)
    assert metrics == {"num_updates": 0.0, "skipped_updates": 1.0}
    assert all(torch.equal(before[name], p) for name, p in policy.trainable())


def test_minibatches_and_epochs_make_one_update_each() -> None:
    policy, slots = tiny(), slots_of("dapo")
    made = learner(policy, slots, minibatches=2, epochs=3)
    batch = prepared(policy, slots)
    metrics = made.learn([batch], context().settings, lambda bound: context(), first_update=0)
    assert metrics["num_updates"] == 6
    assert metrics["ratio_max"] > 1.0 > metrics["ratio_min"]
    assert 0 < metrics["ess"] <= 1


def test_forward_passes_keep_groups_whole_where_they_fit_and_split_them_where_not() -> None:
    batch = batch_of(REWARDS, LENGTHS)  # prompts of 3 tokens: groups cost 13, 8 and 15
    passes = [rows.tolist() for rows in micro_rows(batch, 21)]
    assert sorted(row for rows in passes for row in rows) == list(range(9))
    assert passes == [[5, 6, 7, 8], [0, 1, 2, 3, 4]]
    split = [rows.tolist() for rows in micro_rows(batch, 8)]
    assert sorted(row for rows in split for row in rows) == list(range(9))
    for rows in split:
        cost = int(batch.lengths[rows].sum()) + 3 * len(set(batch.group[rows].tolist()))
        assert cost <= 8 or len(rows) == 1


@pytest.mark.parametrize(("ranks", "groups"), [(4, 32), (8, 32), (16, 64), (32, 128), (64, 256)])
def test_ranks_get_passes_of_near_equal_size(ranks: int, groups: int) -> None:
    """Groups are split between ranks where whole ones would leave ranks waiting: 4 groups a rank give 85 % unsplit."""
    rng = random.Random(ranks)
    typical = [rng.lognormvariate(5, 0.7) for _ in range(groups)]
    lengths = [[max(1, int(rng.lognormvariate(math.log(mean), 0.5))) for _ in range(8)] for mean in typical]
    batch = batch_of([[0.0] * 8] * groups, lengths)
    passes = micro_rows(batch, 16384, ranks=ranks)
    assert sorted(row for rows in passes for row in rows.tolist()) == list(range(8 * groups))
    costs = [int(batch.lengths[rows].sum()) + 3 * len(set(batch.group[rows].tolist())) for rows in passes]
    assert max(costs) <= 16384
    assert batch.num_tokens / (ranks * rounds_cost(costs, ranks)) > 0.93


def test_frozen_log_probabilities_do_not_depend_on_the_pieces() -> None:
    policy, batch = tiny(), batch_of(REWARDS, LENGTHS)
    whole = frozen_logprobs(policy, batch, temperature=0.7, max_tokens=10_000)
    assert torch.allclose(frozen_logprobs(policy, batch, temperature=0.7, max_tokens=9), whole, atol=1e-6)
    assert not torch.allclose(frozen_logprobs(policy, batch, temperature=1.0, max_tokens=9), whole, atol=1e-2)


@pytest.mark.parametrize("micro", [1, 12, 20])
def test_a_quantile_over_the_minibatch_does_not_depend_on_the_pieces(
    micro: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    toy_operators.register()
    slots = slots_of("dapo", objective="toy_above_quantile")
    whole, cut = tiny(), tiny()
    batch = prepared(whole, slots)
    expected, metrics = gradients(learner(whole, slots), batch, monkeypatch)
    found, same = gradients(learner(cut, slots, micro=micro), batch, monkeypatch)
    assert_equal(found, expected)
    assert same["kept"] == pytest.approx(metrics["kept"])
    assert 0 < metrics["kept"] < 1


def test_the_rate_scale_of_a_step_multiplies_the_learning_rate() -> None:
    policy, slots = tiny(), slots_of("dapo")
    made = learner(policy, slots)
    settings = replace(context().settings, learning_rate_scale=0.25)
    metrics = made.learn([prepared(policy, slots)], settings, lambda bound: context(), first_update=0)
    assert metrics["learning_rate"] == pytest.approx(0.25 * made.trainer.optimizer.config.peak_learning_rate)


def test_several_batches_are_several_passes_with_the_same_update_numbers() -> None:
    policy, slots = tiny(), slots_of("dapo")
    made = learner(policy, slots, minibatches=2)
    batch = prepared(policy, slots)
    metrics = made.learn([batch, batch], context().settings, lambda bound: context(), first_update=0)
    assert metrics["num_updates"] == 4
    assert metrics["learning_rate"] == made.trainer.optimizer.config.peak_learning_rate
