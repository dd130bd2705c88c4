"""Parameters of the audit_reward stage: those of the rl stage whose reward is audited, and how it is audited."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator

from components.contract.operators import OperatorSpec
from components.contract.params import Params
from components.rl.params import RLParams
from components.tasks.slots import DEMONSTRATOR


class SearchConfig(Params):
    """A greedy search for constant phrases that the reward pays for."""

    rounds: int = Field(default=3, ge=0)
    """Most phrases that are put together; 0 for no search."""
    prompts: int = Field(default=8, ge=1)
    """Prompts that every phrase is tried on; what is found is measured on all of them."""
    phrases: tuple[str, ...] = ()
    """Further phrases to try, beside those of the rewards' settings, of the prompts and of a list."""


class AuditConfig(Params):
    """On what the reward is audited, and what counts as a finding."""

    prompts: int = Field(default=32, ge=1)
    """Labelled prompts, spread evenly over input `dataset`."""
    samples: int = Field(default=4, ge=1)
    """Responses of the model itself to each prompt, which are in the same group as what is played."""
    demonstrator: Annotated[OperatorSpec, DEMONSTRATOR] = OperatorSpec(name="gold")
    """Who writes the right responses. The default writes the answer and nothing else: where the reward wants a form,
    name a demonstrator that writes it."""
    tolerance: float = Field(default=0.1, ge=0, lt=1)
    """Share of the prompts on which a response may earn too much before it is a finding, and what counts as too much
    above a right response, as a share of what right ones earn beyond the worst."""
    search: SearchConfig = SearchConfig()
    """The search for phrases."""

    @field_validator("demonstrator")
    @classmethod
    def _known(cls, value: OperatorSpec) -> OperatorSpec:
        value.resolve()
        return value


class AuditRewardParams(RLParams):
    """The rl stage's parameters, unchanged, and the audit's own."""

    audit: AuditConfig = AuditConfig()
    """How the reward is audited."""
