"""The supervised trainer that pretrain, sft and replay share: next-token loss over packed batches."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from components.contract.backends import Backends
from components.contract.context import Finish, Write
from components.contract.errors import InputError
from components.modeling.models.policy import Policy
from components.modeling.packing.batching import BatchSampler
from components.modeling.supervised.examples import Example
from components.modeling.supervised.loss import (
    BatchLoss,
    Objective,
    accumulate_gradients,
    domain_losses,
    evaluate_loss,
    likelihood,
)
from components.modeling.supervised.model_shelf import ModelShelf
from components.modeling.training.build import build_trainer
from components.modeling.training.pacing import is_due
from components.modeling.training.trainer import Trainer
from components.modeling.training.training_config import SupervisedConfig
from components.modeling.training.training_state import TrainingState, load_training_state, save_training_state

__all__ = ["BatchLoss", "FitSummary", "Hooks", "SupervisedConfig", "accumulate_gradients", "evaluate_loss", "fit"]


class Hooks(Protocol):
    """The part of StageContext that the trainer uses."""

    def progress(self, done: int, total: int, **metrics: float) -> None:
        """Show the training's progress."""
        ...

    def log(self, step: int, **metrics: float) -> None:
        """Record one row of the history."""
        ...

    def checkpoint_due(self, minutes: float | None) -> bool:
        """Return whether it is time for a checkpoint."""
        ...

    def checkpoint(self, step: int, write: Write) -> None:
        """Make the stage resumable from `step`."""
        ...


@dataclass(frozen=True)
class FitSummary:
    """Totals of a finished training."""

    steps: int
    num_examples: int
    """Examples that could be drawn."""
    num_overlong: int
    """Examples left out because they are longer than max_tokens."""
    num_targets: int
    """Target tokens trained on, repeats included."""
    epochs: float
    padding_avoided: float
    """Share of padding that rectangular batches would have had, which packing saves."""
    loss: float
    """Loss of the last step."""
    trainer: Trainer = field(repr=False, compare=False)
    """The trainer: it saves the policy, and gathers its weights for an evaluation."""


def fit(
    policy: Policy,
    examples: Sequence[Example],
    config: SupervisedConfig,
    hooks: Hooks,
    *,
    seed: int,
    resume: Path | None = None,
    part: Callable[[str], Path] | None = None,
    shelf: ModelShelf | None = None,
    write_extra: Callable[[Path], None] | None = None,
    backends: Backends | None = None,
    objective: Objective = likelihood,
) -> FitSummary:
    """Train `policy` in place and return its totals.

    `resume` is the partial checkpoint to continue from (pass `ctx.resume()` and `ctx.part`); `shelf` keeps models every
    `config.save_every` steps; `write_extra` adds the caller's own files to each partial checkpoint; `backends` choose
    the trainer; `objective` is the loss of a target. Raises InputError when no example fits max_tokens, NotFiniteError
    when the gradient is not finite.
    """
    run = _Run(policy, examples, config, seed, backends, objective)
    return train(run, hooks, resume=resume, part=part, shelf=shelf, write_extra=write_extra)


class Training(Protocol):
    """What `train` drives: a training that does a step at a time and can say where it stands."""

    policy: Policy
    config: SupervisedConfig
    trainer: Trainer
    total_steps: int
    state: TrainingState
    """The position; set to go on from another one."""

    @property
    def done(self) -> int:
        """Return the number of steps done."""
        ...

    def step(self) -> tuple[dict[str, float], int]:
        """Do one step; return its row of the history and the number of tokens computed."""
        ...

    def summary(self) -> FitSummary:
        """Return the totals of the finished training."""
        ...


def train(
    run: Training,
    hooks: Hooks,
    *,
    resume: Path | None,
    part: Callable[[str], Path] | None,
    shelf: ModelShelf | None,
    write_extra: Callable[[Path], None] | None,
) -> FitSummary:
    """Do the remaining steps of a training, with its history, its models and its checkpoints; as in `fit`."""
    config = run.config
    if resume is not None:
        run.state = load_training_state(resume, policy=run.policy, trainer=run.trainer, part=part)

    def write(folder: Path) -> Finish:
        if write_extra is not None and run.trainer.ranks.first:
            write_extra(folder)
        return save_training_state(folder, run.state, policy=run.policy, trainer=run.trainer)

    clock = _Clock()
    while (step := run.done + 1) <= run.total_steps:
        row, num_tokens = run.step()
        if _due(step, config.log_every, run.total_steps):
            hooks.log(step, **row)
        rate = clock.tokens_per_second(num_tokens)
        hooks.progress(step, run.total_steps, loss=row["loss"], tokens_per_second=rate)
        if shelf is not None and config.save_every and _due(step, config.save_every, run.total_steps):
            shelf.keep(step, run.trainer)
        when = config.checkpoint_every, config.checkpoint_minutes
        if step < run.total_steps and is_due(hooks, run.trainer.ranks, step, *when):
            hooks.checkpoint(step, write)
    return run.summary()


COUNTERS = ("num_targets", "num_tokens", "num_cells")
"""Running sums of a training; cells are those of rectangular batches."""


def counted(sums: Mapping[str, float], batch: Sequence[Example], num_targets: int) -> dict[str, float]:
    """Return the running sums with those of one more batch."""
    lengths = [len(example.tokens) for example in batch]
    counts = num_targets, sum(lengths), len(lengths) * max(lengths)
    return {name: sums[name] + n for name, n in zip(COUNTERS, counts, strict=True)}


class _Run:
    """One training: its batches, its trainer and its position."""

    def __init__(
        self,
        policy: Policy,
        examples: Sequence[Example],
        config: SupervisedConfig,
        seed: int,
        backends: Backends | None,
        objective: Objective,
    ) -> None:
        self.policy, self.config, self.objective = policy, config, objective
        self.examples = [example for example in examples if example.longest <= config.max_tokens]
        self.num_overlong = len(examples) - len(self.examples)
        if not self.examples:
            raise InputError(f"none of {len(examples)} examples has at most {config.max_tokens} tokens (max_tokens)")
        domains = [example.domain for example in self.examples]
        self.sampler = BatchSampler(domains, config.batch_size, seed=seed, mixture=config.mixture)
        self.total_steps = self._total_steps()
        self.trainer: Trainer = build_trainer(policy, config.optimizer, total_steps=self.total_steps, backends=backends)
        self.state = TrainingState(step=0, extra=dict.fromkeys(COUNTERS, 0))

    @property
    def done(self) -> int:
        """Return the number of steps done."""
        return self.state.step

    def _total_steps(self) -> int:
        if self.config.steps is not None:
            return self.config.steps
        assert self.config.epochs is not None
        return max(1, math.ceil(self.config.epochs * self.sampler.num_examples / self.config.batch_size))

    def step(self) -> tuple[dict[str, float], int]:
        """Do one optimiser step; return its row of the history and the number of tokens computed."""
        step = self.state.step
        batch = [self.examples[index] for index in self.sampler.batch(step)]
        result = accumulate_gradients(
            self.trainer, batch, max_tokens=self.config.micro_batch_tokens, objective=self.objective
        )
        update = self.trainer.step(step)
        before, seen = self.state.extra["num_tokens"], counted(self.state.extra, batch, result.num_targets)
        self.state = TrainingState(step=step + 1, extra={**seen, "loss": result.loss})
        row = {
            "loss": result.loss,
            "learning_rate": update.learning_rate,
            "grad_norm": update.grad_norm,
            "num_targets": seen["num_targets"],
            "epoch": self._epochs(step + 1),
        }
        row.update(result.parts)
        row.update(domain_losses(result, "loss"))
        return row, seen["num_tokens"] - before

    def _epochs(self, steps: int) -> float:
        return steps * self.config.batch_size / self.sampler.num_examples

    def summary(self) -> FitSummary:
        """Return the totals of the finished training."""
        return FitSummary(
            steps=self.total_steps,
            num_examples=self.sampler.num_examples,
            num_overlong=self.num_overlong,
            num_targets=self.state.extra["num_targets"],
            epochs=self._epochs(self.total_steps),
            padding_avoided=1.0 - self.state.extra["num_tokens"] / self.state.extra["num_cells"],
            loss=self.state.extra["loss"],
            trainer=self.trainer,
        )


def _due(step: int, every: int, total: int) -> bool:
    return step % every == 0 or step == total


class _Clock:
    """Tokens per second of the steps so far; shown to people, never recorded."""

    def __init__(self) -> None:
        self._start, self._tokens = time.perf_counter(), 0

    def tokens_per_second(self, tokens: int) -> float:
        self._tokens += tokens
        return self._tokens / max(1e-9, time.perf_counter() - self._start)
