"""The value model of a run: the starting network with a scalar head, fitted to the critic slot's targets.

Shapes as in components/rl/batch/batch.py; D model width.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from components.modeling.models.policy import Policy
from components.modeling.training.optimizer import build_optimizer
from components.modeling.training.training_config import OptimizerConfig
from components.rl.batch.batch import Batch
from components.rl.configs import CriticConfig
from components.rl.step.learner import minibatches
from components.rl.step.scoring import frozen, micro_rows, pack


class ValueModel:
    """A separate copy of the starting network, a linear head initialised to 0, and AdamW for both."""

    def __init__(self, start: Policy, config: CriticConfig, *, micro_batch_tokens: int) -> None:
        self.config, self._max_tokens = config, micro_batch_tokens
        self._body = start.copy()
        trained = {name for name, _ in start.trainable()}
        for name, parameter in self._body.module.named_parameters():
            parameter.requires_grad_(name in trained)
        weight = next(self._body.module.parameters())
        self._head = nn.Linear(start.width, 1, device=weight.device, dtype=weight.dtype)
        nn.init.zeros_(self._head.weight)
        nn.init.zeros_(self._head.bias)
        self._module = nn.ModuleDict({"body": self._body.module, "head": self._head})
        self._optimizer = build_optimizer(
            self._module,
            OptimizerConfig(
                peak_learning_rate=config.learning_rate,
                warmup_steps=config.warmup_steps,
                clip_norm=config.clip_norm,
            ),
            total_steps=config.warmup_steps + 1,
        )
        self.num_updates = 0

    def values(self, batch: Batch) -> Tensor:
        """Return [N], on the CPU and without gradients: the value of the context and tokens before each token."""
        return frozen(batch, self._score, max_tokens=self._max_tokens)

    def fit(self, batch: Batch, targets: Tensor) -> dict[str, float]:
        """Fit the values to `targets` [N] by least squares; tokens with a NaN target are ignored.

        Loss: mean of (V - target)^2 / 2 over the tokens of a minibatch; with `clip`, of the maximum of this and the
        same with V clipped to within `clip` of `batch.values` (Schulman et al., PPO's released code).
        """
        batch = batch.with_extras(target_n=targets)
        losses, norms = [], []
        for _ in range(self.config.epochs):
            for minibatch in minibatches(batch, self.config.minibatches):
                count = int(minibatch.extras["target_n"].isfinite().sum())
                if not count:
                    continue
                loss = 0.0
                for rows in micro_rows(minibatch, self._max_tokens):
                    part_loss = self._loss(minibatch.select(rows).to(self._body.device)) / count
                    part_loss.backward()
                    loss += float(part_loss.detach())
                norms.append(self._optimizer.step(self.num_updates).grad_norm)
                losses.append(loss)
                self.num_updates += 1
        if not losses:
            return {}
        return {
            "critic_loss": sum(losses) / len(losses),
            "critic_grad_norm": sum(norms) / len(norms),
            "critic_explained": _explained(batch.values, targets),
        }

    def state(self) -> dict[str, Tensor]:
        """Return weights, optimiser state and the number of updates for a checkpoint."""
        weights = {f"weights:{name}": p.detach().clone() for name, p in self._trained().items()}
        optimizer = {f"optimizer:{name}": value for name, value in self._optimizer.state().items()}
        return weights | optimizer | {"num_updates": torch.tensor(self.num_updates)}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        parts: dict[str, dict[str, Tensor]] = {"weights": {}, "optimizer": {}}
        for key, value in state.items():
            kind, _, name = key.partition(":")
            if name:
                parts[kind][name] = value
        with torch.no_grad():
            for name, parameter in self._trained().items():
                parameter.copy_(parts["weights"][name])
        self._optimizer.load_state(parts["optimizer"])
        self.num_updates = int(state["num_updates"])

    def _trained(self) -> dict[str, nn.Parameter]:
        return {name: p for name, p in self._module.named_parameters() if p.requires_grad}

    def _score(self, batch: Batch) -> Tensor:
        scores: Tensor = self._head(self._body.target_hidden(pack(self._body, batch)))
        return scores.squeeze(-1)

    def _loss(self, part: Batch) -> Tensor:
        """Return the sum of the loss over the tokens that have a target."""
        value_n, target_n = self._score(part), part.extras["target_n"]
        error_n = (value_n - target_n.nan_to_num()).square()
        if self.config.clip is not None:
            held_n = part.values + (value_n - part.values).clamp(-self.config.clip, self.config.clip)
            error_n = torch.maximum(error_n, (held_n - target_n.nan_to_num()).square())
        return (error_n / 2).masked_fill(target_n.isnan(), 0.0).sum()


def _explained(values: Tensor, targets: Tensor) -> float:
    """Return the explained variance 1 - Var(target - value) / Var(target); 0 if all targets are equal."""
    known = targets.isfinite()
    variance = float(targets[known].double().var(correction=0))
    left = float((targets[known] - values[known]).double().var(correction=0))
    return 1.0 - left / variance if variance > 0 else 0.0
