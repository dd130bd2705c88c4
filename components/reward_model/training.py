"""The training of a reward model: batches of rows, read in passes without padding, and one update a step.

loss = (sum over rows, or over places, of weight * loss) / (sum of weights), over the whole batch, whatever the passes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from components.contract.backends import Backends
from components.contract.errors import InputError
from components.contract.operators import Bound
from components.modeling.models.policy import Policy
from components.modeling.packing.balance import rank_batches
from components.modeling.packing.batching import BatchSampler, micro_batches
from components.modeling.scorers.network import RewardNetwork, packed_readings
from components.modeling.supervised.model_shelf import ModelShelf
from components.modeling.supervised.trainer import COUNTERS, FitSummary, Hooks, train
from components.modeling.training.build import build_trainer
from components.modeling.training.trainer import Trainer
from components.modeling.training.training_config import SupervisedConfig
from components.modeling.training.training_state import TrainingState
from components.reward_model.config import ScorerLossConfig
from components.reward_model.rows import Unit
from components.reward_model.scored import Scored


@dataclass(frozen=True)
class Fitting:
    """A reward model in training: its network, its rows, and the loss."""

    network: RewardNetwork
    units: Sequence[Unit]
    loss: Bound

    @property
    def config(self) -> ScorerLossConfig:
        """Return the loss's config."""
        assert isinstance(self.loss.config, ScorerLossConfig)
        return self.loss.config


def fit_scorer(
    policy: Policy,
    examples: Sequence[Any],
    config: SupervisedConfig,
    hooks: Hooks,
    *,
    fitting: Fitting,
    seed: int,
    resume: Path | None = None,
    part: Callable[[str], Path] | None = None,
    shelf: ModelShelf | None = None,
    write_extra: Callable[[Path], None] | None = None,
    backends: Backends | None = None,
    objective: Any = None,
) -> FitSummary:
    """Train `fitting` in place and return its totals; arguments as of `fit`, whose examples and objective it replaces.

    Raises InputError when no row fits max_tokens.
    """
    assert policy is fitting.network.policy and not examples
    run = _Run(fitting, config, seed, backends)
    return train(run, hooks, resume=resume, part=part, shelf=shelf, write_extra=write_extra)


def scored_of(fitting: Fitting, units: Sequence[Unit], seed: int) -> Scored:
    """Return the outputs of some rows from one pass, with gradients where they are on."""
    network = fitting.network
    device = network.policy.device
    packed = packed_readings([unit.readings for unit in units], device)
    counts = torch.tensor([unit.num_places for unit in units])
    return Scored(
        outputs=network.outputs(packed),
        row=torch.repeat_interleave(counts).to(device),
        targets=torch.tensor([target for unit in units for target in unit.targets], device=device),
        numbers=[unit.number for unit in units],
        seed=seed,
    )


def accumulate(
    trainer: Trainer, fitting: Fitting, batch: Sequence[Unit], *, max_tokens: int, seed: int
) -> tuple[float, list[list[float]]]:
    """Add the gradient of a batch's loss; return the loss, and the rewards at each row's places."""
    by_place = fitting.config.by_place
    denominator = sum(unit.weight * (unit.num_places if by_place else 1) for unit in batch)
    parts = rank_batches([unit.num_tokens for unit in batch], max_tokens, trainer.ranks.count)

    def loss_of(chosen: list[int]) -> tuple[Tensor, tuple[float, list[float]]]:
        units = [batch[index] for index in chosen]
        scored = scored_of(fitting, units, seed)
        losses = _checked(fitting.loss, fitting.loss(scored), scored, by_place)
        weights = torch.tensor([unit.weight for unit in units], device=losses.device, dtype=losses.dtype)
        loss = (losses * (weights[scored.row] if by_place else weights)).sum() / denominator
        rewards = fitting.network.layout.reward_of(scored.outputs.detach())
        return loss, (float(loss.detach()), rewards.double().tolist())

    found = trainer.accumulate(parts, loss_of)
    rewards: list[list[float]] = [[] for _ in batch]
    for chosen, (_, values) in zip(parts, found, strict=True):
        left = iter(values)
        for index in chosen:
            rewards[index] = [next(left) for _ in range(batch[index].num_places)]
    return math.fsum(loss for loss, _ in found), rewards


def rewards_of(fitting: Fitting, units: Sequence[Unit], *, max_tokens: int) -> list[list[float]]:
    """Return the rewards at each row's places, without gradients."""
    found: list[list[float]] = [[] for _ in units]
    with torch.no_grad():
        for chosen in micro_batches([unit.num_tokens for unit in units], max_tokens):
            scored = scored_of(fitting, [units[index] for index in chosen], 0)
            left = iter(fitting.network.layout.reward_of(scored.outputs).double().tolist())
            for index in chosen:
                found[index] = [next(left) for _ in range(units[index].num_places)]
    return found


def _checked(bound: Bound, losses: Any, scored: Scored, by_place: bool) -> Tensor:
    """Return an operator's losses; an operator of a user may return anything."""
    wanted = len(scored.row) if by_place else scored.num_rows
    if not isinstance(losses, Tensor) or losses.shape != (wanted,):
        shape = list(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise bound.failed(f"returned {shape}, expected a tensor of {wanted}: one loss for each row or place")
    return losses


class _Run:
    """One training: its batches, its trainer and its position."""

    def __init__(self, fitting: Fitting, config: SupervisedConfig, seed: int, backends: Backends | None) -> None:
        self.fitting, self.config, self.seed = fitting, config, seed
        self.policy = fitting.network.policy
        self.units = [unit for unit in fitting.units if unit.longest <= config.max_tokens]
        self.num_overlong = len(fitting.units) - len(self.units)
        if not self.units:
            raise InputError(f"none of {len(fitting.units)} rows has texts of at most {config.max_tokens} tokens")
        domains = [unit.domain for unit in self.units]
        self.sampler = BatchSampler(domains, config.batch_size, seed=seed, mixture=config.mixture)
        epochs = config.epochs or 0.0
        self.total_steps = config.steps or max(1, math.ceil(epochs * self.sampler.num_examples / config.batch_size))
        self.trainer = build_trainer(self.policy, config.optimizer, total_steps=self.total_steps, backends=backends)
        self.state = TrainingState(step=0, extra=dict.fromkeys(COUNTERS, 0))

    @property
    def done(self) -> int:
        """Return the number of steps done."""
        return self.state.step

    def step(self) -> tuple[dict[str, float], int]:
        """Do one optimiser step; return its row of the history and the number of tokens computed."""
        step = self.state.step
        batch = [self.units[index] for index in self.sampler.batch(step)]
        most = self.config.micro_batch_tokens
        loss, rewards = accumulate(self.trainer, self.fitting, batch, max_tokens=most, seed=self.seed)
        update = self.trainer.step(step)
        lengths = [len(reading.tokens) for unit in batch for reading in unit.readings]
        seen = sum(unit.num_places for unit in batch), sum(lengths), len(lengths) * max(lengths)
        before = self.state.extra
        counts = {name: before[name] + n for name, n in zip(COUNTERS, seen, strict=True)}
        self.state = TrainingState(step=step + 1, extra={**counts, "loss": loss})
        row = {
            "loss": loss,
            "learning_rate": update.learning_rate,
            "grad_norm": update.grad_norm,
            "num_targets": counts["num_targets"],
            "epoch": self._epochs(step + 1),
            **_told(rewards, pairs=self.fitting.config.rows == "preferences"),
        }
        return row, sum(lengths)

    def _epochs(self, steps: int) -> float:
        return steps * self.config.batch_size / self.sampler.num_examples

    def summary(self) -> FitSummary:
        """Return the totals of the finished training."""
        extra = self.state.extra
        return FitSummary(
            steps=self.total_steps,
            num_examples=self.sampler.num_examples,
            num_overlong=self.num_overlong,
            num_targets=extra["num_targets"],
            epochs=self._epochs(self.total_steps),
            padding_avoided=1.0 - extra["num_tokens"] / extra["num_cells"],
            loss=extra["loss"],
            trainer=self.trainer,
        )


def _told(rewards: Sequence[Sequence[float]], *, pairs: bool) -> dict[str, float]:
    """Return what the history says of a batch's rewards before the update."""
    flat = [value for values in rewards for value in values]
    found = {"reward_mean": math.fsum(flat) / len(flat)}
    if pairs:
        margins = [chosen - rejected for chosen, rejected in rewards]
        found["margin_mean"] = math.fsum(margins) / len(margins)
        found["accuracy"] = sum(_won(margin) for margin in margins) / len(margins)
    return found


def _won(margin: float) -> float:
    return 1.0 if margin > 0 else 0.5 if margin == 0 else 0.0
