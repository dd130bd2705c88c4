"""Losses and advantages against TRL's own code on the same tensors, for every method of ours that TRL ships."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from collections import defaultdict
from dataclasses import dataclass, field, replace
from types import MethodType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from components.contract.operators import OperatorSpec
from components.modeling.packing.logprobs import TokenScores
from components.rl.batch.batch import Batch
from components.rl.presets import bind, load_preset, override
from components.rl.step.learner import token_weights
from tests.rl.build import batch_of, context, operator, padded

LIMIT = 20


def trainer_of(name: str) -> Any:
    """Return a trainer of TRL, which takes seconds to import: no worker that runs none of these tests does."""
    module = pytest.importorskip(f"trl.trainer.{name.removesuffix('Trainer').lower()}_trainer")
    return getattr(module, name)


@dataclass(frozen=True)
class Twin:
    """A method of ours and the settings of TRL's trainer that are the same."""

    method: str
    settings: dict[str, Any]
    objective: dict[str, Any] = field(default_factory=dict)
    """What differs from the preset."""


TWINS = {
    "grpo": Twin("grpo", {"loss_type": "grpo", "beta": 0.04}),
    "bnpo": Twin("grpo", {"loss_type": "bnpo", "beta": 0.04}, {"denominator": "tokens"}),
    "dapo": Twin("dapo", {"loss_type": "dapo", "epsilon_high": 0.28}),
    "dr_grpo": Twin("dr-grpo", {"loss_type": "dr_grpo"}),
    "lite-ppo": Twin("lite-ppo", {"loss_type": "dapo"}),
    "cispo": Twin("cispo", {"loss_type": "cispo", "epsilon_high": 5.0}),
    "gspo": Twin(
        "gspo",
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon_low": 3e-4, "epsilon_high": 4e-4},
    ),
    "gspo with a wide band": Twin(
        "gspo",
        {"loss_type": "grpo", "importance_sampling_level": "sequence", "epsilon_low": 0.1, "epsilon_high": 0.1},
        {"clip_low": 0.1, "clip_high": 0.1},
    ),
    "luspo": Twin(
        "luspo",
        {"loss_type": "luspo", "importance_sampling_level": "sequence", "epsilon_low": 2e-3, "epsilon_high": 2.5e-3},
    ),
    "80/20": Twin("forking-tokens-8020", {"loss_type": "dapo", "epsilon_high": 0.28, "top_entropy_quantile": 0.2}),
}


class _OneProcess:
    """The part of accelerate's Accelerator that TRL's loss uses, for one process."""

    num_processes, sync_gradients = 1, True

    def gather(self, tensor: Tensor) -> Tensor:
        return tensor

    def pad_across_processes(self, tensor: Tensor, **_: Any) -> Tensor:
        return tensor

    def reduce(self, tensor: Tensor, reduction: str) -> Tensor:
        return tensor


class _Trainer:
    """Whatever TRL's loss reads: the settings of a trainer, unset ones falling to None."""

    def __init__(self, logprobs: Tensor, entropies: Tensor, settings: dict[str, Any]) -> None:
        self._logprobs, self._entropies = logprobs, entropies
        self.beta = 0.0
        self.epsilon_low = self.epsilon_high = 0.2
        self.max_completion_length = LIMIT
        self.importance_sampling_level = "token"
        self.top_entropy_quantile = 1.0
        self.current_gradient_accumulation_steps = 1
        self.use_vllm = self.aux_loss_enabled = self._entropy_bonus_enabled = False
        self.accelerator = _OneProcess()
        self.model = SimpleNamespace(training=True)
        self._metrics: Any = defaultdict(lambda: defaultdict(list))
        self.args = SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=1)
        self.get_high_entropy_mask = MethodType(trainer_of("GRPOTrainer").get_high_entropy_mask, self)
        vars(self).update(settings)

    def __getattr__(self, name: str) -> None:
        return None

    def _get_per_token_logps_and_entropies(self, *_: Any, **__: Any) -> tuple[Tensor, Tensor, None]:
        return self._logprobs, self._entropies, None


def trl_loss(
    batch: Batch, logprobs: Tensor, settings: dict[str, Any], trainer: str = "GRPOTrainer"
) -> tuple[float, Tensor]:
    """Return TRL's loss and its gradient [N]."""
    grid, mask = padded(batch, logprobs)
    grid.requires_grad_()
    ids = torch.zeros(mask.shape, dtype=torch.long)
    inputs = {
        "prompt_ids": ids[:, :1],
        "prompt_mask": ids[:, :1] + 1,
        "completion_ids": ids,
        "completion_mask": mask.long(),
        "advantages": padded(batch, batch.advantages)[0][:, 0],
        "old_per_token_logps": padded(batch, batch.old_logprobs)[0],
        "old_logps": batch.response_sum(batch.old_logprobs),
        "ref_per_token_logps": padded(batch, batch.reference_logprobs)[0],
        "num_items_in_batch": mask.sum(),
    }
    loss = trainer_of(trainer)._compute_loss(_Trainer(grid, padded(batch, batch.entropies)[0], settings), None, inputs)
    loss.backward()
    assert grid.grad is not None
    return float(loss.detach()), grid.grad[mask]


def our_loss(batch: Batch, logprobs: Tensor, twin: Twin) -> tuple[float, Tensor]:
    """Return the loss of the preset's operators and its gradient [N]; advantages are those of the batch."""
    logprobs = logprobs.clone().requires_grad_()
    specs = load_preset(twin.method).slots
    changed = OperatorSpec.model_validate({"name": specs.objective.name, **twin.objective})
    slots = bind(override(specs, {"objective": changed}))
    for bound in slots.advantages:
        if bound.name == "entropy_share":  # a mask of the loss there, of the advantages here
            batch = batch.with_advantages(bound(batch, context()))
    config = slots.objective_config
    weights = token_weights(batch, config.denominator, config.constant or LIMIT)
    losses = [loss(TokenScores(logprobs, None), batch, context(minibatch=batch)).loss for loss in slots.losses]
    total = torch.stack([(loss * weights).sum() for loss in losses]).sum()
    total.backward()
    assert logprobs.grad is not None
    return float(total.detach()), logprobs.grad


def random_batch(seed: int) -> tuple[Batch, Tensor]:
    """Return three groups of four with random lengths, advantages and reference; and new log-probabilities [N]."""
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (3, 4), generator=generator).tolist()
    batch = batch_of([[0.0] * 4] * 3, lengths, seed=seed)
    batch = batch.with_advantages(torch.randn(12, generator=generator))
    noise = torch.randn(batch.num_tokens, generator=generator) * 0.4
    batch = replace(batch, reference_logprobs=batch.old_logprobs - 0.2 * noise)
    return batch, batch.old_logprobs + noise


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)
def test_loss_and_gradient_equal_trl(twin: Twin, seed: int) -> None:
    batch, logprobs = random_batch(seed)
    ours, our_gradient = our_loss(batch, logprobs, twin)
    theirs, their_gradient = trl_loss(batch, logprobs, twin.settings)
    assert ours == pytest.approx(theirs, abs=1e-5, rel=1e-5)
    assert torch.allclose(our_gradient, their_gradient, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_of_rloo_equals_trl_on_policy(seed: int) -> None:
    # TRL has the ratio of whole responses where ours has their log-probability: on policy one gradient, other values
    batch, _ = random_batch(seed)
    batch = replace(batch, reference_logprobs=batch.old_logprobs)  # no divergence: its term is in TRL's reward
    _, ours = our_loss(batch, batch.old_logprobs, Twin("rloo", {}))
    _, theirs = trl_loss(batch, batch.old_logprobs, {}, "RLOOTrainer")
    assert torch.allclose(ours, theirs, atol=1e-5)


def trl_advantages(rewards: Tensor, trainer: Any, settings: dict[str, Any]) -> Tensor:
    """Return advantages [S] by TRL's own statements, cut out of the method that also samples and verifies."""
    source = textwrap.dedent(inspect.getsource(trainer._generate_and_score_completions))
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    texts = [ast.unparse(statement) for statement in function.body]
    first = next(i for i, text in enumerate(texts) if text.startswith(("if self.multi_obj", "grouped_rewards = ")))
    last = next(i for i, text in enumerate(texts) if text.startswith("advantages = torch.nan_to_num"))
    scope = {
        **vars(sys.modules[trainer.__module__]),
        "self": SimpleNamespace(
            reward_weights=torch.ones(1), multi_objective_aggregation="sum_then_normalize", **settings
        ),
        "rewards_per_func": rewards.reshape(-1, 1),
        "rewards": rewards.flatten().clone(),
        "unscorable_mask": torch.zeros(rewards.numel(), dtype=torch.bool),
        "num_generations": rewards.shape[1],
        "device": rewards.device,
    }
    exec("\n".join(texts[first : last + 1]), scope)
    return scope["advantages"]


@pytest.mark.parametrize(
    "name, trainer, settings",
    [
        ("group_mean_std", "GRPOTrainer", {"scale_rewards": "group"}),
        ("group_mean_batch_std", "GRPOTrainer", {"scale_rewards": "batch"}),
        ("group_mean", "GRPOTrainer", {"scale_rewards": "none"}),
        ("leave_one_out", "RLOOTrainer", {"normalize_advantages": False}),
    ],
)
@pytest.mark.parametrize("seed", range(5))
def test_advantages_equal_trl(name: str, trainer: str, settings: dict[str, Any], seed: int) -> None:
    rewards = torch.randint(0, 3, (4, 5), generator=torch.Generator().manual_seed(seed)) / 2
    theirs = trl_advantages(rewards, trainer_of(trainer), settings)
    config = {"epsilon": 1e-4} if "std" in name else {}  # TRL's
    assert torch.allclose(
        operator("advantage", name, **config)(batch_of(rewards.tolist()), context()), theirs, atol=1e-5
    )
