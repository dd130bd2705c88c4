"""The loop: one step is a pipeline of slots over one typed batch. Nothing here is specific to a method.

schedule -> sampler -> rollout -> reward parts and combine -> guidance -> filter -> reference -> annotate -> advantage
         -> replay -> objective + regularizers -> critic
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from components.contract.operators import Bound
from components.contract.slots import EMPTY
from components.modeling.generation.sampler import NativeSampler, Sampler
from components.modeling.models.policy import Policy
from components.modeling.serving.further import FurtherModel
from components.modeling.training.trainer import Trainer
from components.rl.batch.batch import Batch, Prompt
from components.rl.batch.joining import concatenate
from components.rl.slots import Slots
from components.rl.step.accounts import UNVERIFIED
from components.rl.step.collector import Collector
from components.rl.step.context import SlotContext
from components.rl.step.critic import ValueModel
from components.rl.step.diagnostics import divergence, sample_metrics
from components.rl.step.experience import Experience, check_agreement, note_advantages
from components.rl.step.heldout import HeldoutProbe
from components.rl.step.judging import TIMEOUTS, Judge
from components.rl.step.learner import Learner
from components.rl.step.phases import PhasePlan, begin_step
from components.rl.step.policies import Policies
from components.rl.step.returned import advantages_of, of_kind, prompts_of
from components.rl.step.rewarding import combined, parts_of
from components.rl.step.rollout_queue import RolloutQueue
from components.rl.step.sampler_gap import corrected
from components.rl.step.samples import StepSamples
from components.rl.step.scoring import frozen_entropies, frozen_logprobs
from components.rl.step.settings import StepSettings
from components.rl.step.state import LoopSettings, LoopState, joined, separated

NO_MODELS: Mapping[str, Sequence[FurtherModel]] = {}


class Loop:
    """Runs steps on explicit state: everything that changes lives in `state`, the learner or the generator."""

    def __init__(
        self,
        phases: Sequence[PhasePlan],
        settings: LoopSettings,
        *,
        pool: Sequence[Prompt],
        policies: Policies,
        learner: Learner,
        critic: ValueModel | None,
        generator: torch.Generator,
        state: LoopState,
        sampler: Sampler | None = None,
        further: Mapping[str, Sequence[FurtherModel]] = NO_MODELS,
    ) -> None:
        """`sampler` draws from the trained policy (default: the policy itself); `further` holds models by port."""
        self.further = further
        self.phases, self.settings, self.pool = phases, settings, pool
        self.policies, self.learner, self.critic = policies, learner, critic
        self.generator, self.state = generator, state
        self.sampler, self.ahead = sampler or NativeSampler(policies.trained), RolloutQueue()
        self.heldout: HeldoutProbe | None = None
        """What measures the pass rate on held-out prompts, if there are any."""
        self.samples: StepSamples | None = None
        """Where responses of each step are written for people to read, if anywhere."""
        self.journal: Callable[[Experience, int], None] | None = None
        """What records every step, from 1, as it ends."""
        self.judge: Judge | None = None
        """What verified the responses of the last step."""
        self._places = {id(bound): place for phase in phases for place, bound in phase.slots.places()}

    @property
    def phase(self) -> PhasePlan:
        """Return the phase of the next step."""
        return [phase for phase in self.phases if phase.first_step <= self.state.step][-1]

    @property
    def _is_exact(self) -> bool:
        """Whether samples have the log-probabilities that training computes, but for float32's rounding."""
        return self.sampler.is_policy and not self.policies.trained.low_precision

    @property
    def slots(self) -> Slots:
        """Return the operators of the next step."""
        return self.phase.slots

    @property
    def further_trainers(self) -> dict[str, Trainer]:
        """Return the trainers of models beside the policy, by name."""
        return {} if self.critic is None else {"critic": self.critic.trainer}

    def step(self) -> dict[str, float]:
        """Run the next step and return its metrics."""
        self.sampler.load_weights(gather=self.learner.trainer.gather)
        experience = self.learner.trainer.roll_out(self._experience)
        check_agreement(experience, self.learner.trainer.ranks, self.state.step)
        return self._learn(experience)

    def _experience(self) -> Experience:
        """Sample, score and prepare the step's training data."""
        phase, slots = self.phase, self.slots
        self.state.ledger.step = self.state.step
        self.state.accounts.begin()
        begin_step(phase, self.state, self.learner, self.policies, self.generator)
        collector = self.collector()

        def context_of(bound: Bound) -> SlotContext:
            return self._context(bound, collector)

        scheduled = slots.schedule(phase.settings, context_of(slots.schedule))
        collector.settings = settings = of_kind(slots.schedule, scheduled, StepSettings)
        if self.heldout is not None and (self.state.step == 0 or self._is_due(self.heldout.config.every)):
            collector.metrics |= self.heldout.metrics(collector, self.state.step)
        batch = self._with_advantages(self._prepare(gathered := self._gather(collector), collector), collector)
        self.state.accounts.change("by_advantage", gathered, batch)
        self.sampler.rest()
        seen = concatenate(collector.seen)
        own = (seen.select(~seen.external) if bool(seen.external.any()) else seen).of_learned()
        metrics = sample_metrics(own) | collector.part_means.metrics() | self._start_divergence(own, settings)
        learned = slots.replay(batch, context_of(slots.replay))
        return Experience(batch, learned, seen, own.num_traces, settings, collector, metrics)

    def _learn(self, got: Experience) -> dict[str, float]:
        """Update the policy, the critic, the record and the moving copies, and count the step as done."""
        step, phase, slots, collector, metrics = self.state.step, self.phase, self.slots, got.collector, got.metrics

        def context_of(bound: Bound) -> SlotContext:
            return self._context(bound, collector)

        self.state.accounts.learn(got.batch, silent_at_zero=slots.silent_at_zero)
        first_update = (step - phase.schedule_start) * self.learner.passes.updates
        # Without replayed batches, the first update compares the policy with the log-probabilities that it drew with.
        measures = self._is_exact and slots.replay.name == EMPTY and collector.gap.mean is None
        gap = collector.gap if measures else None
        metrics |= self.learner.learn(got.learned, got.settings, context_of, first_update=first_update, gap=gap)
        if self.critic is not None and got.batch.num_responses:
            metrics |= self.critic.fit(got.batch, slots.critic(got.batch, context_of(slots.critic)))
        self.state.record.add(got.seen, step + 1, browse=self._is_due(self.settings.browse_every))
        if self.samples is not None:
            self.samples.add(got, step + 1)
        self.state.num_samples += got.num_drawn + collector.num_probes
        self.state.step = step + 1
        if self.policies.has_copies:
            self.learner.trainer.roll_out(lambda: self.policies.end_step(step + 1))
        if len(self.phases) > 1:
            metrics["phase"] = float(phase.index)
        self.judge = collector.judge
        metrics |= self.state.accounts.metrics(self.ahead.prompts) | {TIMEOUTS: float(collector.judge.num_timeouts)}
        if self.journal is not None:
            self.journal(got, step + 1)
        drawn = {"num_tokens": float(collector.num_tokens)}
        return metrics | drawn | collector.gap.metrics() | collector.metrics

    def tensors(self) -> dict[str, Tensor]:
        """Return the rest of a checkpoint beside what trainers hold and `state`: copies, counts, queued draws."""
        critic = {} if self.critic is None else self.critic.state()
        return joined({"critic": critic, "copy": self.policies.state(), "ahead": self.ahead.state(self.pool)})

    def load_tensors(self, saved: Mapping[str, Tensor]) -> None:
        """Restore what `tensors` returned."""
        parts = separated(saved)
        self.policies.load_state(parts["copy"])
        self.ahead.load_state(parts["ahead"], self.pool)
        if self.critic is not None:
            self.critic.load_state(parts["critic"])

    def collector(self) -> Collector:
        """Return what draws and scores responses in the next step."""

        def reward(batch: Batch) -> Tensor:
            slots = self.slots
            parts = parts_of(slots, batch, lambda bound: self._context(bound, collector))
            collector.reward_parts = parts
            return combined(parts, slots.combine, batch, self._context(slots.combine, collector))

        collector = Collector(
            self.policies.trained,
            self.phase.settings,
            generator=self.generator,
            ledger=self.state.ledger,
            reward=reward,
            max_tokens=self.learner.passes.micro_batch_tokens,
            sampler=self.sampler,
            ahead=self.ahead,
            steps_left=self.phase.end_step - self.state.step,
        )
        collector.version = self.state.step
        return collector

    def _gather(self, collector: Collector) -> Batch:
        """Sample prompts and responses, apply guidance and filters; return the learned tokens."""
        slots, accounts = self.slots, self.state.accounts

        def gather(count: int) -> Batch:
            chosen = slots.sampler(self.phase.pool, count, self._context(slots.sampler, collector))
            prompts = [self.phase.pool[at] for at in prompts_of(slots.sampler, chosen, len(self.phase.pool))]
            found = slots.rollout(prompts, collector, self._context(slots.rollout, collector))
            drawn = of_kind(slots.rollout, found, Batch)
            accounts.draw(prompts, drawn, slots.rollout.name, begun=self.ahead.take_begun())
            scored = collector.score(drawn)
            accounts.change(UNVERIFIED, drawn, scored)
            found = slots.guidance(scored, collector, self._context(slots.guidance, collector))
            guided = of_kind(slots.guidance, found, Batch)
            accounts.change(f"by_{slots.guidance.name}", scored, guided)
            accounts.gathered(guided)
            return guided

        batch = gather(collector.settings.prompts_per_step)
        accounts.take()
        for bound in slots.filters:
            kept = of_kind(bound, bound(batch, gather, self._context(bound, collector)), Batch)
            accounts.filtered(f"by_{bound.name}", batch, kept)
            batch = kept
        return batch.of_learned()

    def _prepare(self, batch: Batch, collector: Collector) -> Batch:
        """Score the batch with what operators read: the reference policy, the critic, entropies at the temperature."""
        if self.slots.needs_reference:
            reference = self.slots.reference(self.policies, self._context(self.slots.reference, collector))
            assert reference is not None
            batch = replace(batch, reference_logprobs=self._frozen(reference, batch, collector.settings))
        temperature = collector.settings.temperature
        if temperature != 1.0 and self.slots.users_of("step_entropies"):
            most = collector.max_tokens
            own = frozen_entropies(self.policies.trained, batch, max_tokens=most, temperature=temperature)
            batch = replace(batch, entropies=own)
        return batch if self.critic is None else replace(batch, values=self.critic.values(batch))

    def _with_advantages(self, batch: Batch, collector: Collector) -> Batch:
        for bound in self.slots.annotate:
            batch = of_kind(bound, bound(batch, self._context(bound, collector)), Batch)
        for bound in self.slots.advantages:
            found = advantages_of(bound, bound(batch, self._context(bound, collector)), batch)
            batch = found if isinstance(found, Batch) else batch.with_advantages(found)
        if not self._is_exact and not self.slots.corrects_itself:
            batch, weights = corrected(batch, collector.gap, self.settings.sampler_correction)
            collector.metrics.update(weights)
        note_advantages(self.state.ledger, batch)
        return batch

    def _context(self, bound: Bound, collector: Collector) -> SlotContext:
        return SlotContext(
            step=self.state.step,
            num_steps=self.settings.num_steps,
            seed=self.phase.seed,
            settings=collector.settings,
            memory=self.state.memory.setdefault(self._places[id(bound)], {}),
            ledger=self.state.ledger,
            collector=collector,
            policies=self.policies,
            pool=self.pool,
            metrics=collector.metrics,
            further=self.further,
        )

    def _start_divergence(self, seen: Batch, settings: StepSettings) -> dict[str, float]:
        if not seen.num_tokens or not self._is_due(self.settings.start_kl_every):
            return {}
        return divergence(seen.old_logprobs, self._frozen(self.policies.start, seen, settings))

    def _frozen(self, policy: Policy, batch: Batch, settings: StepSettings) -> Tensor:
        max_tokens = self.learner.passes.micro_batch_tokens
        return frozen_logprobs(policy, batch, temperature=settings.temperature, max_tokens=max_tokens)

    def _is_due(self, every: int) -> bool:
        """Whether the current step is a multiple of `every` or the last one; never if `every` is 0."""
        number = self.state.step + 1
        return every > 0 and (number % every == 0 or number == self.settings.num_steps)
