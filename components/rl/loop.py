"""The loop: one step is a pipeline of slots over one typed batch. No method is known here.

schedule -> sampler -> rollout -> reward -> guidance -> filter -> reference -> advantage -> objective + regularizers
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from components.contract.operators import Bound
from components.modeling.policy import Policy
from components.rl.batch import Batch, Prompt, concatenate
from components.rl.collector import Collector
from components.rl.diagnostics import divergence, sample_metrics
from components.rl.learner import Learner
from components.rl.policies import Policies
from components.rl.scoring import frozen_logprobs
from components.rl.slots import SlotContext, Slots, StepSettings
from components.rl.state import LoopState


@dataclass(frozen=True)
class LoopSettings:
    """What holds for all steps."""

    num_steps: int
    seed: int
    start: StepSettings
    """Before the schedule has changed them."""
    start_kl_every: int
    """Steps between measurements of the divergence from the starting policy; 0 for none."""
    browse_every: int
    """Steps between samples for people."""


class Loop:
    """Runs steps on explicit state: whatever changes is in `state`, the learner and the generator."""

    def __init__(
        self,
        slots: Slots,
        settings: LoopSettings,
        *,
        pool: Sequence[Prompt],
        policies: Policies,
        learner: Learner,
        generator: torch.Generator,
        state: LoopState,
    ) -> None:
        self.slots, self.settings, self.pool = slots, settings, pool
        self.policies, self.learner, self.generator, self.state = policies, learner, generator, state
        self._places = {id(bound): place for place, bound in slots.places()}

    def step(self) -> dict[str, float]:
        """Run the next step and return its metrics."""
        step = self.state.step
        settings = self.slots.schedule(self.settings.start, self._context(self.slots.schedule, self.settings.start))

        def context_of(bound: Bound) -> SlotContext:
            return self._context(bound, settings)

        def reward(batch: Batch) -> Tensor:
            parts = [weight * bound(batch, context_of(bound)) for weight, bound in self.slots.weighted_rewards()]
            return torch.stack(parts).sum(0)

        collector = Collector(
            self.policies.trained, settings, generator=self.generator, ledger=self.state.ledger, reward=reward
        )

        def gather(count: int) -> Batch:
            chosen = self.slots.sampler(self.pool, count, context_of(self.slots.sampler))
            prompts = [self.pool[index] for index in chosen]
            batch = collector.score(self.slots.rollout(prompts, collector, context_of(self.slots.rollout)))
            return self.slots.guidance(batch, collector, context_of(self.slots.guidance))

        batch = gather(settings.prompts_per_step)
        for bound in self.slots.filters:
            batch = bound(batch, gather, context_of(bound))
        batch = self._with_reference(batch, settings, context_of(self.slots.reference))
        for bound in self.slots.advantages:
            batch = batch.with_advantages(bound(batch, context_of(bound)))
        seen = concatenate(collector.seen)
        metrics = sample_metrics(seen) | self._start_divergence(seen, settings)
        first_update = step * self.learner.passes.updates
        metrics |= self.learner.learn(batch, settings, context_of, first_update=first_update)
        self.state.record.add(seen, step + 1, browse=self._is_due(self.settings.browse_every))
        self.state.num_samples += seen.num_responses
        self.state.step = step + 1
        return metrics

    def _context(self, bound: Bound, settings: StepSettings) -> SlotContext:
        return SlotContext(
            step=self.state.step,
            num_steps=self.settings.num_steps,
            seed=self.settings.seed,
            settings=settings,
            memory=self.state.memory.setdefault(self._places[id(bound)], {}),
            ledger=self.state.ledger,
        )

    def _with_reference(self, batch: Batch, settings: StepSettings, context: SlotContext) -> Batch:
        """Score the batch by the reference policy, only if a loss reads it."""
        if not self.slots.needs_reference:
            return batch
        reference = self.slots.reference(self.policies, context)
        assert reference is not None
        return replace(batch, reference_logprobs=self._frozen(reference, batch, settings))

    def _start_divergence(self, seen: Batch, settings: StepSettings) -> dict[str, float]:
        if not self._is_due(self.settings.start_kl_every):
            return {}
        return divergence(seen.old_logprobs, self._frozen(self.policies.start, seen, settings))

    def _frozen(self, policy: Policy, batch: Batch, settings: StepSettings) -> Tensor:
        max_tokens = self.learner.passes.micro_batch_tokens
        return frozen_logprobs(policy, batch, temperature=settings.temperature, max_tokens=max_tokens)

    def _is_due(self, every: int) -> bool:
        """Whether the current step is an `every`-th one or the last; never for 0."""
        number = self.state.step + 1
        return every > 0 and (number % every == 0 or number == self.settings.num_steps)
