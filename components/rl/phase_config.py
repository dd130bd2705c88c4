"""Phases of an rl stage: what changes from one to the next, and what is carried over. Free of torch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from components.contract.errors import UnknownName
from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.rl.presets import check_specs
from components.rl.slots import step_slots

Rule = Literal["keep", "reset"]


class Carry(Params):
    """What a phase takes over from the one before it."""

    optimizer: Rule = "keep"
    """keep: its averages, and one learning-rate schedule over both phases. reset: no averages, and a schedule of its
    own, warm-up included, up to the next reset."""
    reference: Rule = "keep"
    """keep: the reference policy as it is. reset: the trained policy of this moment takes its place, in `initial` and
    in every moving copy."""
    replay: Rule = "keep"
    """keep: what the replay operator remembers. reset: it begins empty."""
    ledger: Rule = "keep"
    """keep: operators see all outcomes so far. reset: only those from here on; the metrics output has all."""
    seed: Rule = "keep"
    """keep: random numbers go on. reset: they begin anew, from the stage's seed and the phase's name."""


class Phase(Params):
    """One part of the stage's steps. What is not set is as the stage has it."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    """How errors and logs call it."""
    steps: int = Field(ge=1)
    """Rounds of rollout and update."""
    prompts_per_step: int | None = Field(default=None, ge=1)
    """Prompts of one step."""
    group_size: int | None = Field(default=None, ge=1)
    """Responses to each prompt."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Longest response in tokens: the context length of the phase."""
    temperature: float | None = Field(default=None, gt=0)
    """Of sampling."""
    learning_rate_scale: float = Field(default=1.0, gt=0)
    """Factor of the scheduled learning rate."""
    domains: tuple[str, ...] = ()
    """Domains whose prompts are trained on; empty: all."""
    slots: dict[str, OperatorSpec | tuple[OperatorSpec, ...]] = Field(default_factory=dict)
    """Overrides of the stage's slots by name, as the stage's own overrides of its method."""
    carry: Carry = Carry()
    """What is taken over from the phase before."""

    @field_validator("slots")
    @classmethod
    def _known_slots(
        cls, value: dict[str, OperatorSpec | tuple[OperatorSpec, ...]]
    ) -> dict[str, OperatorSpec | tuple[OperatorSpec, ...]]:
        known = step_slots()
        for key, given in value.items():
            if key not in known:
                raise UnknownName("rl slot", key, known)
            if key == "critic":
                raise ValueError("critic: the value model is one for the whole stage; set the slot beside `method`")
            if isinstance(given, OperatorSpec) == known[key].many:
                raise ValueError(f"{key}: expected {'a list' if known[key].many else 'one operator'}")
            check_specs(key, given)
        return {key: known[key].place(given) for key, given in value.items()}


def check_phases(phases: tuple[Phase, ...], *, given_steps: int | None) -> None:
    """Raise ValueError for names that repeat, a first phase with a reset, or a number of steps that differs."""
    names = [phase.name for phase in phases]
    if len(set(names)) != len(names):
        raise ValueError(f"phases: names must differ, found {', '.join(names)}")
    if phases and "reset" in phases[0].carry.model_dump().values():
        raise ValueError(f"phases: {names[0]!r} is the first, so it has nothing to reset; leave out its carry")
    total = sum(phase.steps for phase in phases)
    if phases and given_steps is not None and given_steps != total:
        raise ValueError(f"steps is {given_steps}, but the phases have {total} in all; set steps or phases")
