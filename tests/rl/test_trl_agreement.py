"""Losses and advantages against TRL's own code on the same tensors."""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from components.modeling.logprobs import TokenScores
from components.rl.batch import Batch
from components.rl.learner import token_weights
from components.rl.slots import Denominator
from tests.rl.build import batch_of, context, operator, padded

trl = pytest.importorskip("trl.trainer.grpo_trainer")
LIMIT = 20


class _OneProcess:
    """The part of accelerate's Accelerator that TRL's loss uses, for one process."""

    num_processes, sync_gradients = 1, True

    def gather(self, tensor: Tensor) -> Tensor:
        return tensor

    def reduce(self, tensor: Tensor, reduction: str) -> Tensor:
        return tensor


class _Trainer:
    """Whatever TRL's loss reads: the settings of a GRPOTrainer, unset ones falling to None."""

    def __init__(self, logprobs: Tensor, loss_type: str, beta: float) -> None:
        self._logprobs = logprobs
        self.loss_type, self.beta = loss_type, beta
        self.epsilon_low, self.epsilon_high = 0.2, 0.28
        self.max_completion_length = LIMIT
        self.importance_sampling_level = "token"
        self.top_entropy_quantile = 1.0
        self.current_gradient_accumulation_steps = 1
        self.use_vllm = self.aux_loss_enabled = self._entropy_bonus_enabled = False
        self.accelerator = _OneProcess()
        self.model = SimpleNamespace(training=True)
        self._metrics: Any = defaultdict(lambda: defaultdict(list))
        self.args = SimpleNamespace(delta=None, use_bias_correction_kl=False, steps_per_generation=1)

    def __getattr__(self, name: str) -> None:
        return None

    def _get_per_token_logps_and_entropies(self, *_: Any, **__: Any) -> tuple[Tensor, Tensor, None]:
        return self._logprobs, torch.zeros_like(self._logprobs), None


def _trl_loss(batch: Batch, logprobs: Tensor, loss_type: str, beta: float) -> tuple[float, Tensor]:
    grid, mask = padded(batch, logprobs)
    grid.requires_grad_()
    ids = torch.zeros(mask.shape, dtype=torch.long)
    inputs = {
        "prompt_ids": ids[:, :1],
        "prompt_mask": ids[:, :1] + 1,
        "completion_ids": ids,
        "completion_mask": mask.long(),
        "advantages": padded(batch, batch.advantages)[0],
        "old_per_token_logps": padded(batch, batch.old_logprobs)[0],
        "ref_per_token_logps": padded(batch, batch.reference_logprobs)[0],
        "num_items_in_batch": mask.sum(),
    }
    loss = trl.GRPOTrainer._compute_loss(_Trainer(grid, loss_type, beta), None, inputs)
    loss.backward()
    assert grid.grad is not None
    return float(loss.detach()), grid.grad[mask]


def _our_loss(batch: Batch, logprobs: Tensor, denominator: Denominator, beta: float) -> tuple[float, Tensor]:
    logprobs = logprobs.clone().requires_grad_()
    scores = TokenScores(logprobs, None)
    losses = [operator("objective", "ppo_clip", clip_low=0.2, clip_high=0.28)(scores, batch, context())]
    if beta:
        losses.append(operator("regularizer", "kl", estimator="k3", coefficient=beta)(scores, batch, context()))
    total = torch.stack([(loss.loss * token_weights(batch, denominator, LIMIT)).sum() for loss in losses]).sum()
    total.backward()
    assert logprobs.grad is not None
    return float(total.detach()), logprobs.grad


@pytest.mark.parametrize("beta", [0.0, 0.04])
@pytest.mark.parametrize(
    "loss_type, denominator",
    [("grpo", "responses"), ("bnpo", "tokens"), ("dapo", "tokens"), ("dr_grpo", "constant")],
)
@pytest.mark.parametrize("seed", range(5))
def test_loss_and_gradient_equal_trl(loss_type: str, denominator: Denominator, beta: float, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 9, (3, 4), generator=generator).tolist()
    batch = batch_of([[0.0] * 4] * 3, lengths, seed=seed)
    batch = batch.with_advantages(torch.randn(12, generator=generator))
    noise = torch.randn(batch.num_tokens, generator=generator) * 0.4
    vars(batch)["reference_logprobs"].copy_(batch.old_logprobs - 0.2 * noise)
    ours, our_gradient = _our_loss(batch, batch.old_logprobs + noise, denominator, beta)
    theirs, their_gradient = _trl_loss(batch, batch.old_logprobs + noise, loss_type, beta)
    assert ours == pytest.approx(theirs, abs=1e-5)
    assert torch.allclose(our_gradient, their_gradient, atol=1e-5)


def test_standardised_advantages_equal_trl() -> None:
    rewards = torch.tensor([[1.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]])
    theirs = (rewards - rewards.nanmean(1, keepdim=True)) / (trl.nanstd(rewards, dim=1).unsqueeze(1) + 1e-4)
    ours = operator("advantage", "group_mean_std", epsilon=1e-4)(batch_of(rewards.tolist()), context())
    assert torch.allclose(ours, theirs.flatten(), atol=1e-5)
