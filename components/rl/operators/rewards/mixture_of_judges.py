"""A mixture of judges: each says of a response whether it keeps a constraint, and one that does not is enough."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import Field, field_validator, model_validator

from components.contract.errors import InputError
from components.contract.further import SCORERS, asked_ports
from components.contract.operators import OperatorSpec, with_used
from components.contract.params import Params
from components.rl.configs import RewardConfig
from components.rl.slots import REWARD
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class ConstraintJudge(Params):
    """One judge: any reward operator, and the value from which on it says yes."""

    name: str = Field(pattern=r"^[A-Za-z][A-Za-z0-9_]{0,39}$")
    """Its name in the history, `holds_<name>`."""
    reward: Annotated[OperatorSpec, REWARD]
    """What it says: a rule (`verifier`, `rubric`, `pattern`) or a language model (`judge`)."""
    at_least: float = 1.0
    """Lowest value at which the constraint holds."""

    @field_validator("reward")
    @classmethod
    def _known(cls, spec: OperatorSpec) -> OperatorSpec:
        spec.resolve()
        return spec


class MixtureOfJudgesConfig(RewardConfig):
    """The judges of each task."""

    by: dict[str, tuple[ConstraintJudge, ...]] = Field(min_length=1)
    """Domain -> its judges; an empty list: nothing is asked of it."""
    default: tuple[ConstraintJudge, ...] | None = None
    """The judges of all other domains; without it they are an error."""

    @model_validator(mode="after")
    def _fit(self) -> Self:
        for where, judges in (*self.by.items(), ("default", self.default or ())):
            names = [judge.name for judge in judges]
            if len(set(names)) < len(names):
                raise ValueError(f"judges of {where} have different names, not {', '.join(names)}")
        if SCORERS in self.asked:
            raise ValueError(
                "a judge says yes or no, and a reward model has no zero; ask it by calibrated_scorer beside the mixture"
            )
        return self

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the ports whose models its judges ask."""
        judges = [judge for group in (*self.by.values(), self.default or ()) for judge in group]
        return tuple(asked_ports(with_used(judge.reward.resolve() for judge in judges)))


def mixture_of_judges(batch: Batch, context: SlotContext, *, config: MixtureOfJudgesConfig) -> Tensor:
    """Return [S]: 1 where all judges of the response's domain say yes, 0 where one says no, else NaN.

    NaN, a failed verification: a judge could not say, and none of the others says no. With combine `constrained` or
    `constrained_rank` it is the constraint on the other parts. A judge sees the responses of its domain alone. Metrics,
    of the latest responses of the policy in the step: `holds_<judge>`, the share with its yes; `all_hold_<domain>`.

    Source: Xu et al. 2024, The Perfect Blend (CGPO, arXiv:2409.20370), mixture of judges: a response is "satisfied" if
    and only if every judge of its task, rule or language model, says so.
    """
    import torch

    from components.rl.batch.nested import nested_reward

    domains = [batch.prompts[group].item.domain for group in batch.group.tolist()]
    found_s = torch.ones(batch.num_responses)
    held: dict[str, list[Tensor]] = {}
    for domain in dict.fromkeys(domains):
        judges = config.by.get(domain, config.default)
        if judges is None:
            raise InputError(
                f"reward mixture_of_judges: domain {domain!r} has no judges; list them in `by`, or give a `default`"
            )
        rows = torch.tensor([each == domain for each in domains])
        part = batch.select(rows)
        says = torch.ones(len(judges), part.num_responses)
        for index, judge in enumerate(judges):
            memory = context.memory.setdefault(domain, {}).setdefault(judge.name, {})
            value = nested_reward(judge.reward, part, replace(context, memory=memory))
            says[index] = (value >= judge.at_least).float().masked_fill(value.isnan(), torch.nan)
            held.setdefault(f"holds_{judge.name}", []).append(says[index][~part.external])
        unknown_s = says.isnan().any(0) & ~(says == 0).any(0)
        found_s[rows] = (says == 1).all(0).float().masked_fill(unknown_s, torch.nan)
        held[f"all_hold_{domain}"] = [found_s[rows][~part.external]]
    for name, values in held.items():
        told = torch.cat(values)
        if len(told := told[~told.isnan()]):
            context.metrics[name] = float(told.double().mean())
    return found_s
