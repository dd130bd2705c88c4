"""Meta-transfer: each step tries every source task on a copy, and goes towards those that help the target.

theta_k = theta after `inner_steps` on task k; r_k = L(theta) - L(theta_k) on rows of the target;
theta <- theta + rate * sum_k w_k (theta_k - theta): Reptile (Nichol et al. 2018, arXiv:1803.02999) with weights.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from components.contract.backends import Backends
from components.contract.errors import InputError, UnknownName
from components.modeling.models.policy import Policy
from components.modeling.packing.batching import BatchSampler
from components.modeling.supervised.examples import Example
from components.modeling.supervised.loss import Objective, accumulate_gradients, evaluate_loss, likelihood
from components.modeling.supervised.model_shelf import ModelShelf
from components.modeling.supervised.trainer import COUNTERS, FitSummary, Hooks, SupervisedConfig, counted, train
from components.modeling.training.build import build_trainer
from components.modeling.training.trainer import Trainer
from components.modeling.training.training_state import TrainingState
from components.sft.transfer_config import TransferConfig
from components.sft.weighting import Weighting

WEIGHTS = "weighting|"
"""What the names of the weighting's tensors begin with in a checkpoint."""


def fit_transfer(
    policy: Policy,
    examples: Sequence[Example],
    config: SupervisedConfig,
    hooks: Hooks,
    *,
    transfer: TransferConfig,
    seed: int,
    resume: Path | None = None,
    part: Callable[[str], Path] | None = None,
    shelf: ModelShelf | None = None,
    write_extra: Callable[[Path], None] | None = None,
    backends: Backends | None = None,
    objective: Objective = likelihood,
) -> FitSummary:
    """Train `policy` in place on the source tasks and return its totals; arguments are those of `fit`.

    Raises InputError for several processes, and where the target or every source lacks examples.
    """
    run = _Run(policy, examples, config, transfer, seed, backends, objective)
    return train(run, hooks, resume=resume, part=part, shelf=shelf, write_extra=write_extra)


class _Run:
    """One training: its tasks, their weighting and its position."""

    def __init__(
        self,
        policy: Policy,
        examples: Sequence[Example],
        config: SupervisedConfig,
        transfer: TransferConfig,
        seed: int,
        backends: Backends | None,
        objective: Objective,
    ) -> None:
        assert config.steps is not None, "params ask for it"
        self.policy, self.config, self.transfer, self.objective = policy, config, transfer, objective
        fitting = [example for example in examples if example.longest <= config.max_tokens]
        self.num_overlong, self.total_steps = len(examples) - len(fitting), config.steps
        tasks: dict[str, list[Example]] = {}
        for example in fitting:
            tasks.setdefault(example.domain, []).append(example)
        if transfer.target not in tasks:
            raise UnknownName("domain of transfer.target", transfer.target, tasks)
        self.target = _Rows(tasks.pop(transfer.target), transfer.target_rows, seed)
        if not tasks:
            raise InputError(f"transfer: all demonstrations are of the target {transfer.target!r}; add source tasks")
        self.tasks = {name: _Rows(tasks[name], config.batch_size, seed) for name in sorted(tasks)}
        self.trainer: Trainer = build_trainer(policy, config.optimizer, total_steps=config.steps, backends=backends)
        if self.trainer.ranks.all.count > 1:
            raise InputError("transfer: copies of the tasks are trained in one process; take a pool with trainer torch")
        self.weighting: Weighting = transfer.weighting.resolve()(list(self.tasks), seed)
        self.done, self.loss, self.counts = 0, 0.0, dict.fromkeys(COUNTERS, 0)

    @property
    def state(self) -> TrainingState:
        """Return the position, with what the weighting remembers."""
        tensors = {f"{WEIGHTS}{name}": tensor for name, tensor in self.weighting.state().items()}
        return TrainingState(self.done, {**self.counts, "loss": self.loss}, tensors)

    @state.setter
    def state(self, state: TrainingState) -> None:
        self.done, self.loss = state.step, state.extra["loss"]
        self.counts = {name: state.extra[name] for name in COUNTERS}
        own = {name.removeprefix(WEIGHTS): value for name, value in state.tensors.items() if name.startswith(WEIGHTS)}
        self.weighting.load_state(own)

    def step(self) -> tuple[dict[str, float], int]:
        """Try all tasks, go towards their weighted mean, and let the weighting learn.

        Returns a row of the history and the number of tokens that the copies were trained on.
        """
        tokens_before = self.counts["num_tokens"]
        rows, weights = self.target.batch(self.done), self.weighting.weights()
        start = {name: p.detach().clone() for name, p in self.policy.trainable()}
        moved = {name: torch.zeros_like(tensor) for name, tensor in start.items()}
        before, rate = self._loss(rows), 0.0
        gains: dict[str, float] = {}
        for weight, (name, task) in zip(weights, self.tasks.items(), strict=True):
            rate = self._train_copy(task)
            gains[name] = before - self._loss(rows)
            for key, parameter in self.policy.trainable():
                moved[key] += weight * (parameter.detach() - start[key])
            self.policy.load_state(start)
        self.policy.load_state({key: start[key] + self.transfer.rate * moved[key] for key in start})
        self.trainer.load_state({})
        self.weighting.learn(list(gains.values()))
        self.done, self.loss = self.done + 1, before
        row = {"loss": before, "learning_rate": rate, "num_targets": self.counts["num_targets"]}
        for weight, (name, gain) in zip(weights, gains.items(), strict=True):
            row |= {f"weight_{name}": weight, f"gain_{name}": gain}
        return row, self.counts["num_tokens"] - tokens_before

    def _train_copy(self, task: _Rows) -> float:
        """Train the policy on a task with a fresh optimiser, as its copy; return the learning rate."""
        self.trainer.load_state({})
        rate = 0.0
        for inner in range(self.transfer.inner_steps):
            batch = task.batch(self.done * self.transfer.inner_steps + inner)
            budget = self.config.micro_batch_tokens
            found = accumulate_gradients(self.trainer, batch, max_tokens=budget, objective=self.objective)
            rate = self.trainer.step(self.done).learning_rate
            self.counts = counted(self.counts, batch, found.num_targets)
        return rate

    def _loss(self, rows: Sequence[Example]) -> float:
        return evaluate_loss(self.policy, rows, max_tokens=self.config.micro_batch_tokens).loss

    def summary(self) -> FitSummary:
        """Return the totals of the finished training."""
        num_examples = sum(len(task.examples) for task in self.tasks.values())
        drawn = self.done * self.transfer.inner_steps * self.config.batch_size * len(self.tasks)
        return FitSummary(
            steps=self.total_steps,
            num_examples=num_examples,
            num_overlong=self.num_overlong,
            num_targets=self.counts["num_targets"],
            epochs=drawn / num_examples,
            padding_avoided=1.0 - self.counts["num_tokens"] / self.counts["num_cells"],
            loss=self.loss,
            trainer=self.trainer,
        )


class _Rows:
    """The examples of one task, in batches that depend on seed and step alone."""

    def __init__(self, examples: Sequence[Example], batch_size: int, seed: int) -> None:
        self.examples = examples
        domains = [example.domain for example in examples]
        self._sampler = BatchSampler(domains, min(batch_size, len(examples)), seed=seed)

    def batch(self, step: int) -> list[Example]:
        """Return the examples of a step."""
        return [self.examples[index] for index in self._sampler.batch(step)]
