"""RA3's reward: how likely a rationale makes the lines that follow, less a cost for opening a new one."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator

from components.contract.errors import InputError
from components.rl.configs import RewardConfig
from components.rl.labels import ANSWERS
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch

RATIONALE = "{rationale}"


class SegmentLikelihoodConfig(RewardConfig):
    """The cost of thinking, and how a rationale stands in the text."""

    reads: ClassVar[frozenset[str]] = frozenset({ANSWERS})
    cost: float = Field(default=0.1, ge=0)
    """Nats that a new rationale costs; keeping the last one costs none."""
    keep: str = "-"
    """The response that keeps the last rationale; so does a blank one."""
    wrap: str = "<think>{rationale}\n"
    """The rationale in the text, before the lines that follow; the same as that of generator insert_rationales."""
    tag: str = Field(default="think", min_length=1)
    """Tag whose mark a response may write itself; it is left out of the rationale."""
    by: Literal["start", "trained"] = "start"
    """Whose likelihood: the frozen starting policy, the p of an E-step, or the policy in training."""
    mean: bool = False
    """Whether the log-probability is a mean over tokens, and not the sum that the bound has."""

    @field_validator("wrap")
    @classmethod
    def _whole(cls, value: str) -> str:
        if value.count(RATIONALE) != 1:
            raise InputError(f"wrap needs {RATIONALE} once, found {value!r}")
        return value


def segment_likelihood(batch: Batch, context: SlotContext, *, config: SegmentLikelihoodConfig) -> Tensor:
    """Return [S]: log p(next | before, rationale) - cost, and log p(next | before) for `keep`.

    `before` is the item's `data["before"]`, or its prompt; `next` its `data["next"]`, or its answer. A response that
    was cut at the limit is a rationale like others. Both likelihoods are of the line itself, given that no further
    rationale opens before it: a model of text with rationales would otherwise charge every place for not thinking.
    Metrics: `think_share`; `think_gain`, the mean gain in nats of a rationale over none; and where items say in
    `data["change"]` whether a sub-goal begins, `think_at_changes`, the share of rationales that stand there, beside
    `change_share`, what chance gives, and `think_gain_at_changes`, their gain.
    Source: Zhang et al. 2025, Learning to Reason as Action Abstractions (RA3), E-step: the likelihood of the ground
    truth less the cost of a new latent, from the divergence to a prior that keeps the last one; its form is ours.
    """
    import torch

    batch.require_single("reward segment_likelihood")
    collector = context.collector
    items = [prompt.item for prompt in batch.prompts]
    befores = [collector.encode_prompt(str(item.data.get("before", item.prompt))) for item in items]
    nexts = [collector.encode(str(item.data.get("next", item.answer))) for item in items]
    if not all(nexts):
        raise InputError("reward segment_likelihood: a prompt has no text that follows it (data.next, or its answer)")
    groups = batch.group.tolist()
    thoughts = [rationale_of(text, config) for text in batch.texts]
    before, _, after = config.wrap.partition(RATIONALE)
    inserted = [collector.encode(f"{before}{thought}{after}") if thought else [] for thought in thoughts]
    pairs = zip(groups, inserted, strict=True)
    contexts = [[*befores[group], *tokens] for group, tokens in pairs] + befores
    policy = context.policies.start if config.by == "start" else context.policies.trained
    found = collector.likelihood(contexts, [*(nexts[group] for group in groups), *nexts], policy=policy)
    opening = collector.encode(before)[:1]
    if opening:
        opens = collector.likelihood(contexts, [opening] * len(contexts), policy=policy)
        found = [_without(row, float(one)) for row, one in zip(found, opens, strict=True)]
    values = torch.stack([row.mean() if config.mean else row.sum() for row in found])
    with_s, without_s = values[: len(groups)], values[len(groups) :][batch.group]
    thinks = torch.tensor([bool(thought) for thought in thoughts])
    _measure(batch, thinks, with_s - without_s, context)
    return with_s - config.cost * thinks.float()


def _without(logprobs: Tensor, opening: float) -> Tensor:
    """Return [T_i]: log-probabilities given that no rationale opens first, whose log-probability is `opening`."""
    least = 1e-6  # where a model is all but certain of a rationale, what follows without one is hardly measured
    shift = math.log(max(-math.expm1(min(opening, 0.0)), least))
    changed = logprobs.clone()
    changed[0] -= shift
    return changed


def rationale_of(text: str, config: SegmentLikelihoodConfig) -> str:
    """Return what a response thinks, without its mark; empty if it keeps the last rationale."""
    thought = text.strip().removeprefix(f"<{config.tag}>").removesuffix(f"</{config.tag}>").strip()
    return "" if thought == config.keep.strip() else thought


def _measure(batch: Batch, thinks: Tensor, gain_s: Tensor, context: SlotContext) -> None:
    import torch

    if not batch.num_responses:
        return
    context.metrics["think_share"] = float(thinks.double().mean())
    if bool(thinks.any()):
        context.metrics["think_gain"] = float(gain_s[thinks].double().mean())
    changes = [batch.prompts[group].item.data.get("change") for group in batch.group.tolist()]
    if not all(isinstance(change, bool) for change in changes):
        return
    change_s = torch.tensor(changes)
    context.metrics["change_share"] = float(change_s.double().mean())
    if bool(thinks.any()):
        context.metrics["think_at_changes"] = float(change_s[thinks].double().mean())
    if bool((thinks & change_s).any()):
        context.metrics["think_gain_at_changes"] = float(gain_s[thinks & change_s].double().mean())
