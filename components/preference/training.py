"""The training of a preference stage: batches of comparisons, and what a reference says of them, computed once."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from pathlib import Path

from torch import Tensor

from components.contract.backends import Backends
from components.contract.operators import Bound
from components.measure.intervals import Interval
from components.modeling.models.policy import Policy
from components.modeling.packing.batching import BatchSampler
from components.modeling.supervised.loss import BatchLoss, Objective, domain_losses
from components.modeling.supervised.model_shelf import ModelShelf
from components.modeling.supervised.trainer import FitSummary, Hooks, train
from components.modeling.training.build import build_trainer
from components.modeling.training.trainer import Trainer
from components.modeling.training.training_config import SupervisedConfig
from components.modeling.training.training_state import TrainingState
from components.preference.batch_loss import Referred, accumulate_gradients
from components.preference.comparisons import Comparison
from components.preference.held_out import measured
from components.preference.loss_config import PreferenceLossConfig
from components.preference.params import PreferenceParams
from components.preference.scoring import frozen_logprobs, of_reference

REFERENCE = "reference|logprobs"
"""What a checkpoint calls the log-probabilities under the reference."""
COUNTERS = ("num_targets", "num_tokens", "num_cells")
"""Running sums; cells are those of rectangular batches in which each response has a prompt of its own."""
Opened = Callable[[], Policy]


@dataclass(frozen=True)
class Preferences:
    """What a training compares, and by what."""

    loss: Bound
    train: Sequence[Comparison]
    held_out: Sequence[Comparison]
    reference: Opened | None
    """Loads the reference; None takes the policy as it is before its first update."""
    num_overlong: int = 0
    """Examples that were too long to train on."""


@dataclass(frozen=True)
class PreferenceSummary(FitSummary):
    """Totals, and what held-out comparisons say of the trained policy."""

    held_out: Mapping[str, float | Interval] = field(repr=False)


def fit_preferences(
    policy: Policy,
    examples: Sequence[object],
    config: PreferenceParams,
    hooks: Hooks,
    *,
    preferences: Preferences,
    seed: int,
    resume: Path | None = None,
    part: Callable[[str], Path] | None = None,
    shelf: ModelShelf | None = None,
    write_extra: Callable[[Path], None] | None = None,
    backends: Backends | None = None,
    objective: Objective | None = None,
) -> FitSummary:
    """Train `policy` in place and return its totals; arguments are those of `fit`, in whose place it stands.

    `preferences` stand for examples and objective; all of them are used, however long.
    """
    run = _Run(policy, config, preferences, seed, backends, resumed=resume is not None)
    return train(run, hooks, resume=resume, part=part, shelf=shelf, write_extra=write_extra)


class _Run:
    """One training: its batches, its trainer and its position."""

    def __init__(
        self,
        policy: Policy,
        config: PreferenceParams,
        preferences: Preferences,
        seed: int,
        backends: Backends | None,
        *,
        resumed: bool,
    ) -> None:
        self.policy, self.loss = policy, preferences.loss
        self.config: SupervisedConfig = config
        self.num_overlong = preferences.num_overlong
        self.examples = preferences.train
        self.held_out = preferences.held_out
        self.everything = [*self.examples, *self.held_out]
        domains = [one.domain for one in self.examples]
        self.sampler = BatchSampler(domains, config.batch_size, seed=seed, mixture=config.mixture)
        self.total_steps = self._total_steps()
        self.trainer: Trainer = build_trainer(policy, config.optimizer, total_steps=self.total_steps, backends=backends)
        self.done, self.counts, self.last_loss = 0, dict.fromkeys(COUNTERS, 0), 0.0
        self._reference: Tensor | None = None
        if self._compares_to_reference and not resumed:
            self._reference = self._scored(preferences.reference)

    @property
    def _compares_to_reference(self) -> bool:
        assert isinstance(self.loss.config, PreferenceLossConfig)
        return self.loss.config.reference

    def _scored(self, reference: Opened | None) -> Tensor:
        """Return what the reference says of all examples, held-out ones last; a loaded reference is freed again."""
        groups = [of_reference(one) for one in self.everything]
        most = self.config.micro_batch_tokens
        if reference is None:
            return self.trainer.evaluate(lambda: frozen_logprobs(self.policy, groups, max_tokens=most))
        return frozen_logprobs(reference(), groups, max_tokens=most)

    @property
    def state(self) -> TrainingState:
        """Return the position, with the log-probabilities under the reference."""
        tensors = {} if self._reference is None else {REFERENCE: self._reference}
        return TrainingState(self.done, {**self.counts, "loss": self.last_loss}, tensors)

    @state.setter
    def state(self, state: TrainingState) -> None:
        self.done, self.last_loss = state.step, state.extra["loss"]
        self.counts = {name: state.extra[name] for name in COUNTERS}
        self._reference = state.tensors.get(REFERENCE)

    def _total_steps(self) -> int:
        if self.config.steps is not None:
            return self.config.steps
        assert self.config.epochs is not None
        return max(1, math.ceil(self.config.epochs * self.sampler.num_examples / self.config.batch_size))

    def step(self) -> tuple[dict[str, float], int]:
        """Do one optimiser step; return its row of the history and the number of tokens computed."""
        chosen = self.sampler.batch(self.done)
        batch = [self._referred(index) for index in chosen]
        found = accumulate_gradients(self.trainer, batch, self.loss, max_tokens=self.config.micro_batch_tokens)
        update = self.trainer.step(self.done)
        before = self.counts["num_tokens"]
        self.counts = _counted(self.counts, [self.examples[index] for index in chosen])
        self.done, self.last_loss = self.done + 1, found.loss
        row = {
            "loss": found.loss,
            "learning_rate": update.learning_rate,
            "grad_norm": update.grad_norm,
            "num_targets": self.counts["num_targets"],
            "epoch": self._epochs(),
            **found.parts,
        }
        row.update(domain_losses(BatchLoss(found.loss, found.num_targets, found.by_domain), "loss"))
        return row, self.counts["num_tokens"] - before

    def _referred(self, index: int) -> Referred:
        """Return the example at an index, held-out ones after those trained on, with what the reference says of it."""
        one = self.everything[index]
        if self._reference is None:
            return Referred(one, ())
        start = self._starts[index]
        return Referred(one, tuple(self._reference[start : self._starts[index + 1]].tolist()))

    @cached_property
    def _starts(self) -> list[int]:
        """Return where the log-probabilities of each example begin, and where the last ones end."""
        return list(accumulate((len(of_reference(one)[1]) for one in self.everything), initial=0))

    def _epochs(self) -> float:
        return self.done * self.config.batch_size / self.sampler.num_examples

    def summary(self) -> PreferenceSummary:
        """Return the totals of the finished training, and measure the held-out comparisons."""
        first = len(self.examples)
        held_out = [self._referred(first + number) for number in range(len(self.held_out))]
        most = self.config.micro_batch_tokens
        told = self.trainer.evaluate(lambda: measured(self.policy, held_out, self.loss, most)) if held_out else {}
        return PreferenceSummary(
            steps=self.total_steps,
            num_examples=self.sampler.num_examples,
            num_overlong=self.num_overlong,
            num_targets=self.counts["num_targets"],
            epochs=self._epochs(),
            padding_avoided=1.0 - self.counts["num_tokens"] / self.counts["num_cells"],
            loss=self.last_loss,
            trainer=self.trainer,
            held_out=told,
        )


def _counted(sums: Mapping[str, int], batch: Sequence[Comparison]) -> dict[str, int]:
    """Return the running sums with those of one more batch."""
    num_targets = sum(one.num_targets for one in batch)
    num_tokens = sum(one.num_tokens for one in batch)
    widest = max(len(one.prompt) + max(map(len, one.responses)) for one in batch)
    num_cells = sum(len(one.responses) for one in batch) * widest
    found = num_targets, num_tokens, num_cells
    return {name: sums[name] + n for name, n in zip(COUNTERS, found, strict=True)}
