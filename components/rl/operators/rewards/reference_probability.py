"""How likely a thought makes the reference answer, without a verifier (RLPR)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from components.contract.errors import InputError
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.blocks import TagName

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class ReferenceProbabilityConfig(RewardConfig):
    """Where the answer begins, how token probabilities become one, and what is subtracted."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})
    tag: TagName = "answer"
    """Tag of the answer; the reference takes the place of what follows the last one."""
    aggregate: Literal["mean", "product"] = "mean"
    """Of the reference's tokens: the mean of their probabilities, or their product, the sequence's likelihood."""
    without: Literal["start", "trained", "none"] = "start"
    """Policy whose probability of the reference without a thought is subtracted, or none; the start's is computed once
    for each prompt."""


def reference_probability(batch: Batch, context: SlotContext, *, config: ReferenceProbabilityConfig) -> Tensor:
    """Return [S]: max(0, p(reference | prompt, thought) - p(reference | prompt)), 0 without an answer tag.

    The thought is the response up to its last opening tag; both p are at temperature 1, without gradients.
    Metrics: `reference_probability` and `reference_probability_without`, the means of both.

    Source: Yu et al. 2025, RLPR (arXiv:2506.18254), eq. 2 and 4; released code: the start's probability is subtracted.
    """
    import torch

    from components.rl.step.thoughts import before_answers

    batch.require_single("reward reference_probability")
    collector = context.collector
    answers = [prompt.item.answer for prompt in batch.prompts]
    if not all(answers):
        raise InputError("reward reference_probability: a prompt has no reference answer")
    references, opening = [collector.encode(answer) for answer in answers], collector.encode(f"<{config.tag}>")
    groups = batch.group.tolist()
    thoughts = before_answers(batch, collector, config.tag)
    pairs = [(thought, references[group]) for thought, group in zip(thoughts, groups, strict=True) if thought]
    bare = [
        ([*prompt.tokens, *opening], reference) for prompt, reference in zip(batch.prompts, references, strict=True)
    ]
    inside = bare if config.without == "trained" else []  # one pass for both
    found = collector.likelihood(*zip(*pairs, *inside, strict=True)) if pairs or inside else []
    values = torch.tensor([_probability(logprobs, config) for logprobs in found])
    with_s = torch.zeros(batch.num_responses)
    with_s[torch.tensor([bool(thought) for thought in thoughts])] = values[: len(pairs)]
    if config.without == "start":
        without_p = _at_start(bare, batch, context, config)
    else:
        without_p = values[len(pairs) :] if inside else torch.zeros(batch.num_prompts)
    if batch.num_responses:
        context.metrics["reference_probability"] = float(with_s.double().mean())
        context.metrics["reference_probability_without"] = float(without_p.double().mean())
    return (with_s - without_p[batch.group]).clamp(min=0.0)


def _probability(logprobs: Tensor, config: ReferenceProbabilityConfig) -> float:
    return float(logprobs.exp().mean() if config.aggregate == "mean" else logprobs.sum().exp())


def _at_start(
    bare: list[tuple[list[int], list[int]]], batch: Batch, context: SlotContext, config: ReferenceProbabilityConfig
) -> Tensor:
    """Return [P]: the start's probability of each reference without a thought, remembered by item."""
    import torch

    ids = [prompt.item.id for prompt in batch.prompts]
    new = [at for at, item_id in enumerate(ids) if item_id not in context.memory]
    if new:
        contexts, references = [bare[at][0] for at in new], [bare[at][1] for at in new]
        found = context.collector.likelihood(contexts, references, policy=context.policies.start)
        context.memory.update({ids[at]: _probability(values, config) for at, values in zip(new, found, strict=True)})
    return torch.tensor([context.memory[item_id] for item_id in ids])
