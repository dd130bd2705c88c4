"""What an operator is given beside its arguments."""

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
    """What an operator may know besides its arguments."""

    step: int
    """From 0."""
    num_steps: int
    seed: int
    settings: StepSettings
    """Of this step."""
    memory: dict[str, Any]
    """The operator's own, JSON values only; empty at the first call, saved for resume."""
    ledger: PassRates
    """Outcomes of every prompt so far, an earlier stage's included where its ledger is an input. Read only."""
    collector: Collector
    """Draws, scores and probes with the trained policy during this step."""
    policies: Policies
    """The trained policy and those it may be compared with."""
    pool: Sequence[Prompt]
    """All prompts of the stage; a sampler is given those of its phase."""
    further: Mapping[str, Sequence[FurtherModel]] = field(default_factory=dict)
    """Port (teachers, scorers, judges) -> the models that are connected to it; an operator's config names what it
    asks by its class variable `asks`."""
    metrics: dict[str, float] = field(default_factory=dict)
    """What operators report of the step, by name; it joins the step's own metrics in the history."""
    minibatch: Batch | None = None
    """While a loss runs: the whole minibatch (on the CPU, responses without advantage included) that its batch is a
    part of. Quantiles and means over a batch are taken here, so that forward passes of any size give one result."""
