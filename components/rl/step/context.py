"""The context that every operator receives beside its arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.rl.step.settings import StepSettings

if TYPE_CHECKING:
    from components.modeling.serving.further import FurtherModel
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector
    from components.rl.step.ledger import PassRates
    from components.rl.step.policies import Policies


@dataclass(frozen=True)
class SlotContext:
    """What an operator may read beside its arguments."""

    step: int
    """From 0."""
    num_steps: int
    seed: int
    settings: StepSettings
    """Of this step."""
    memory: dict[str, Any]
    """The operator's own memory, JSON values only; empty at the first call, saved for resume."""
    ledger: PassRates
    """Outcomes of every prompt so far, including an earlier stage's if its ledger is an input. Read only."""
    collector: Collector
    """Draws, scores and probes with the trained policy during this step."""
    policies: Policies
    """The trained policy and the ones it may be compared with."""
    pool: Sequence[Prompt]
    """All prompts of the stage; a sampler receives only the prompts of its phase."""
    further: Mapping[str, Sequence[FurtherModel]] = field(default_factory=dict)
    """Port (teachers, scorers, judges, partners) -> the models connected to it; an operator's config names the port
    that it queries in its class variable `asks`."""
    metrics: dict[str, float] = field(default_factory=dict)
    """Metrics that operators report for the step, by name; they join the step's own metrics in the history."""
    minibatch: Batch | None = None
    """While a loss runs: the whole minibatch that contains its batch, on the CPU, with responses without advantage.
    Quantiles and means over a batch are taken here, so that the size of forward passes does not change the result."""
