"""Phases of an rl stage: what changes from one to the next, and what is carried over. Does not import torch."""

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
    """What a phase carries over from the previous one."""

    optimizer: Rule = "keep"
    """keep: its averages, and one learning-rate schedule over both phases. reset: no averages, and a new schedule,
    warm-up included, until the next reset."""
    reference: Rule = "keep"
    """keep: the reference policy unchanged. reset: the current trained policy replaces it, in `initial` and in every
    moving copy."""
    replay: Rule = "keep"
    """keep: the replay operator's memory. reset: it starts empty."""
    ledger: Rule = "keep"
    """keep: operators see all outcomes so far. reset: only later ones; the metrics output has all."""
    seed: Rule = "keep"
    """keep: the random stream continues. reset: a new stream from the stage's seed and the phase's name."""


class Phase(Params):
    """One part of the stage's steps. Unset fields take the stage's values."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")
    """Name in errors and logs."""
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
    """Multiplies the scheduled learning rate."""
    domains: tuple[str, ...] = ()
    """Domains whose prompts are trained on; empty: all."""
    slots: dict[str, OperatorSpec | tuple[OperatorSpec, ...]] = Field(default_factory=dict)
    """Overrides of the stage's slots by name, in the same form as the stage's overrides of its method."""
    carry: Carry = Carry()
    """What is carried over from the previous phase."""

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
    """Raise ValueError for repeated names, a reset in the first phase, or a total that differs from `given_steps`."""
    names = [phase.name for phase in phases]
    if len(set(names)) != len(names):
        raise ValueError(f"phases: names must differ, found {', '.join(names)}")
    if phases and "reset" in phases[0].carry.model_dump().values():
        raise ValueError(f"phases: {names[0]!r} is the first, so it has nothing to reset; leave out its carry")
    total = sum(phase.steps for phase in phases)
    if phases and given_steps is not None and given_steps != total:
        raise ValueError(f"steps is {given_steps}, but the phases have {total} in all; set steps or phases")
