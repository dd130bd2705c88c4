"""Phases at run time: the plan of each, and the resets at its start."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from components.contract.errors import UnknownName
from components.rl.batch.batch import Prompt
from components.rl.phase_config import Carry, Phase
from components.rl.presets import bind
from components.rl.slots import Slots
from components.rl.step.settings import StepSettings
from components.tasks.seeds import derive_seed

if TYPE_CHECKING:
    import torch

    from components.rl.params import RLParams
    from components.rl.step.learner import Learner
    from components.rl.step.policies import Policies
    from components.rl.step.state import LoopState


@dataclass(frozen=True)
class PhasePlan:
    """A phase with everything its steps need."""

    name: str
    index: int
    first_step: int
    """Steps of the stage done when the phase begins."""
    end_step: int
    """Steps of the stage done when the phase ends."""
    slots: Slots
    settings: StepSettings
    """Before the schedule slot changes them."""
    pool: Sequence[Prompt]
    carry: Carry
    seed: int
    """Seed of random choices until the next seed reset."""
    schedule_start: int
    """Step at which its learning-rate schedule began, in this phase or an earlier one."""
    schedule_steps: int
    """Steps of that schedule, until the next optimiser reset or the end of the stage."""


def plan_phases(params: RLParams, pool: Sequence[Prompt], *, seed: int) -> list[PhasePlan]:
    """Return the phases in order; a stage without phases is one. Raises UnknownName for a domain without prompts."""
    phases = params.phases or (Phase(name="all", steps=params.steps),)
    starts = [sum(phase.steps for phase in phases[:index]) for index in range(len(phases) + 1)]
    resets = [0, *(i for i, phase in enumerate(phases) if i and phase.carry.optimizer == "reset"), len(phases)]
    plans = []
    for index, phase in enumerate(phases):
        seed = derive_seed(seed, "phase", phase.name) if phase.carry.seed == "reset" else seed
        begin = max(reset for reset in resets if reset <= index)
        end = min(reset for reset in resets if reset > index)
        plans.append(
            PhasePlan(
                name=phase.name,
                index=index,
                first_step=starts[index],
                end_step=starts[index + 1],
                slots=bind(params.slots(phase)),
                settings=_settings(params, phase),
                pool=_of_domains(pool, phase),
                carry=phase.carry,
                seed=seed,
                schedule_start=starts[begin],
                schedule_steps=starts[end] - starts[begin],
            )
        )
    return plans


def begin_step(
    plan: PhasePlan, state: LoopState, learner: Learner, policies: Policies, generator: torch.Generator
) -> None:
    """Give the learner the phase's operators and schedule; at the phase's first step, apply the resets of `carry`."""
    learner.slots = plan.slots
    learner.trainer.total_steps = plan.schedule_steps * learner.passes.updates
    if plan.index == 0 or state.step != plan.first_step:
        return
    if plan.carry.optimizer == "reset":
        learner.trainer.load_state({})
    if plan.carry.reference == "reset":
        policies.restart_reference()
    if plan.carry.replay == "reset":
        for place in [place for place in state.memory if place.startswith("replay/")]:
            del state.memory[place]
    if plan.carry.ledger == "reset":
        state.ledger.restart()
    if plan.carry.seed == "reset":
        generator.manual_seed(plan.seed)


def _settings(params: RLParams, phase: Phase) -> StepSettings:
    names = ("prompts_per_step", "group_size", "max_new_tokens", "temperature")
    chosen = {name: vars(params)[name] if vars(phase)[name] is None else vars(phase)[name] for name in names}
    return StepSettings(**chosen, learning_rate_scale=phase.learning_rate_scale)


def _of_domains(pool: Sequence[Prompt], phase: Phase) -> Sequence[Prompt]:
    known = {prompt.item.domain for prompt in pool}
    for domain in phase.domains:
        if domain not in known:
            raise UnknownName(f"domain of phase {phase.name!r}", domain, known)
    return [prompt for prompt in pool if prompt.item.domain in phase.domains] if phase.domains else pool
