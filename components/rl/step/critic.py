"""The value model of a run: the starting network with a scalar head, fitted to the critic slot's targets.

Shapes as in components/rl/batch/batch.py; D model width.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from components.contract.backends import Backends
from components.modeling.models.policy import Policy
from components.modeling.training.build import build_trainer
from components.modeling.training.training_config import OptimizerConfig
from components.rl.batch.batch import Batch
from components.rl.configs import CriticConfig
from components.rl.step.learner import minibatches
from components.rl.step.scoring import frozen, micro_rows, pack


class ValueModel:
    """A separate copy of the starting network, a linear head initialised to 0, and AdamW for both."""

    def __init__(
        self, start: Policy, config: CriticConfig, *, micro_batch_tokens: int, backends: Backends | None = None
    ) -> None:
        """Copy `start`, which is not sharded yet; under FSDP the copy is sharded as the policy will be."""
        self.config, self._max_tokens = config, micro_batch_tokens
        self._body = start.copy()
        trained = {name for name, _ in start.trainable()}
        for name, parameter in self._body.module.named_parameters():
            parameter.requires_grad_(name in trained)
        # As the weights that it is trained with: adapters are float32 whatever the model is.
        weight = next(p for _, p in self._body.trainable())
        device = "cpu" if weight.is_meta else weight.device
        self._head = nn.Linear(start.width, 1, device=device, dtype=weight.dtype)
        nn.init.zeros_(self._head.weight)
        nn.init.zeros_(self._head.bias)
        self._body.module.add_module("value_head", self._head)
        self.trainer = build_trainer(
            self._body,
            OptimizerConfig(
                peak_learning_rate=config.learning_rate,
                warmup_steps=config.warmup_steps,
                clip_norm=config.clip_norm,
            ),
            total_steps=config.warmup_steps + 1,
            backends=_own_backends(backends or Backends()),
        )
        self.num_updates = 0

    def values(self, batch: Batch) -> Tensor:
        """Return [N], on the CPU and without gradients: the value of the context and tokens before each token."""
        return self.trainer.evaluate(lambda: frozen(batch, self._score, max_tokens=self._max_tokens))

    def fit(self, batch: Batch, targets: Tensor) -> dict[str, float]:
        """Fit the values to `targets` [N] by least squares; tokens with a NaN target are ignored.

        Loss: mean of (V - target)^2 / 2 over the tokens of a minibatch, or over its responses of each one's mean (see
        `denominator`); with `clip`, of the maximum of this and the same with V clipped to within `clip` of
        `batch.values` (Schulman et al., PPO's released code).
        """
        batch = batch.with_extras(target_n=targets)
        known_n = targets.isfinite().float()
        size_s = batch.response_sum(known_n)
        by_response = self.config.denominator == "responses"
        weight_n = batch.to_tokens(1 / size_s.clamp(min=1)) if by_response else torch.ones_like(known_n)
        batch = batch.with_extras(error_weight_n=weight_n)
        losses, norms = [], []
        for _ in range(self.config.epochs):
            for minibatch in minibatches(batch, self.config.minibatches):
                count = self._count(minibatch)
                if not count:
                    continue
                losses.append(self._accumulate(minibatch, count))
                norms.append(self.trainer.step(self.num_updates).grad_norm)
                self.num_updates += 1
        if not losses:
            return {}
        return {
            "critic_loss": sum(losses) / len(losses),
            "critic_grad_norm": sum(norms) / len(norms),
            "critic_explained": _explained(batch.values, targets),
        }

    def state(self) -> dict[str, Tensor]:
        """Return the number of updates; weights and optimiser are the trainer's part of a checkpoint."""
        return {"num_updates": torch.tensor(self.num_updates)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self.num_updates = int(state["num_updates"])

    def _count(self, minibatch: Batch) -> int:
        """Return the number of targets of a minibatch, or of responses that have some."""
        known_n = minibatch.extras["target_n"].isfinite()
        if self.config.denominator == "tokens":
            return int(known_n.sum())
        return int((minibatch.of_traces(minibatch.response_sum(known_n.long())) > 0).sum())

    def _accumulate(self, minibatch: Batch, count: int) -> float:
        """Add the gradients of a minibatch with `count` targets or responses; return its loss."""

        def loss_of(rows: Tensor) -> tuple[Tensor, float]:
            loss = self._loss(minibatch.select(rows).to(self._body.device)) / count
            return loss, float(loss.detach())

        parts = micro_rows(minibatch, self._max_tokens, ranks=self.trainer.ranks.count)
        return sum(self.trainer.accumulate(parts, loss_of), 0.0)

    def _score(self, batch: Batch) -> Tensor:
        def head(hidden: Tensor) -> Tensor:
            scores: Tensor = self._head(hidden.to(self._head.weight.dtype))
            return scores.squeeze(-1)

        return self._body.at_targets(pack(self._body, batch), head)

    def _loss(self, part: Batch) -> Tensor:
        """Return the weighted sum of the loss over the tokens that have a target."""
        value_n, target_n = self._score(part), part.extras["target_n"]
        error_n = (value_n - target_n.nan_to_num()).square()
        if self.config.clip is not None:
            held_n = part.values + (value_n - part.values).clamp(-self.config.clip, self.config.clip)
            error_n = torch.maximum(error_n, (held_n - target_n.nan_to_num()).square())
        return (error_n / 2 * part.extras["error_weight_n"]).masked_fill(target_n.isnan(), 0.0).sum()


def _own_backends(backends: Backends) -> Backends:
    """Return what trains the value model: FSDP as the policy, else a whole copy on each rank."""
    return backends if backends.trainer == "fsdp" else Backends(recompute=backends.recompute)


def _explained(values: Tensor, targets: Tensor) -> float:
    """Return the explained variance 1 - Var(target - value) / Var(target); 0 if all targets are equal."""
    known = targets.isfinite()
    variance = float(targets[known].double().var(correction=0))
    left = float((targets[known] - values[known]).double().var(correction=0))
    return 1.0 - left / variance if variance > 0 else 0.0
