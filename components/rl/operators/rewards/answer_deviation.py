"""How far a response's own answer is from the reference, in the eyes of the policy, within a range (DARL)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.errors import InputError
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.blocks import Grammar, TagName, blocks

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class AnswerDeviationConfig(RewardConfig):
    """Where the answer begins, and which deviations count."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})
    tag: TagName = "answer"
    """Tag of the answer; the reference takes the place of what follows the last one."""
    range: float = Field(default=8.0, gt=0)
    """gamma: a deviation above r(reference) / gamma does not count."""


def answer_deviation(batch: Batch, context: SlotContext, *, config: AnswerDeviationConfig) -> Tensor:
    """Return [S]: d = max(0, r(reference) - r(own answer)) where d <= r(reference) / range, else 0.

    r is the mean probability of an answer's tokens behind the prompt and the response's thought, at temperature 1 and
    without gradients; both are encoded anew. 0 for a response without an answer. Metrics: `own_probability`, the mean
    of r(own answer), and `within_range`, the share of responses whose deviation counts.

    Source: Huang et al. 2026, DARL (arXiv:2601.14700): r = alpha r(reference) + beta d 1[d <= r(reference) / gamma],
    as two summaries of the paper give it; beta is this reward's weight, and the first term is another reward.
    """
    import torch

    from components.rl.step.thoughts import before_answers

    batch.require_single("reward answer_deviation")
    references = [prompt.item.answer for prompt in batch.prompts]
    if not all(references):
        raise InputError("reward answer_deviation: a prompt has no reference answer")
    collector, grammar = context.collector, Grammar(tags=(config.tag,), closing=False)
    found = [blocks(text, grammar) for text in batch.texts]
    own = [collector.encode(parts[-1].text.strip()) if parts else [] for parts in found]
    encoded = [collector.encode(reference) for reference in references]
    thoughts = before_answers(batch, collector, config.tag)
    answered = [row for row, (thought, answer) in enumerate(zip(thoughts, own, strict=True)) if thought and answer]
    deviation_s, groups = torch.zeros(batch.num_responses), batch.group.tolist()
    if not answered:
        return deviation_s
    before = [thoughts[row] for row in answered]
    after = [encoded[groups[row]] for row in answered] + [own[row] for row in answered]
    scored = collector.likelihood([*before, *before], after)  # one pass for both
    chances = torch.stack([logprobs.exp().mean() for logprobs in scored])
    of_reference, of_own = chances.split(len(answered))
    deviation = (of_reference - of_own).clamp(min=0.0)
    kept = deviation.masked_fill(deviation > of_reference / config.range, 0.0)
    deviation_s[torch.tensor(answered)] = kept
    context.metrics["own_probability"] = float(of_own.double().mean())
    context.metrics["within_range"] = float((deviation_s > 0).double().mean())
    return deviation_s
