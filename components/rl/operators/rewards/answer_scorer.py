"""What reward models say of an answer alone: a thought is hidden from them, and a broken form has a fixed reward."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from components.rl.operators.rewards.scorer import ScorerConfig, scorer
from components.rl.step.context import SlotContext
from components.tasks.blocks import Grammar, blocks

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class AnswerScorerConfig(ScorerConfig):
    """The form of a response, and what a broken one is worth."""

    grammar: Grammar = Grammar(closing=False)
    """The tags of a response, each once and in this order; the last one holds the answer."""
    malformed: float = -5.0
    """The reward of a response that has another form, has text outside of its tags or an empty answer, or was cut; in
    place of the score, after `shift` and `squash`. Reconstructed."""


def answer_scorer(batch: Batch, context: SlotContext, *, config: AnswerScorerConfig) -> Tensor:
    """Return [S]: the score of task and answer by the reward models of port `scorers`, or `malformed`.

    A reward model reads the last block with its tags, and nothing before it; the gradient goes through thought and
    answer all the same. Beyond scores it is reward `scorer`. Metric: `malformed`, responses of a broken form in the
    whole step.

    Source: RLMT (Bhaskar et al. 2025, arXiv:2509.20357), section 3: the reward model scores (x, y), not the thought z.
    """
    import torch

    answers = [
        answer_of(text, config.grammar) if finished else None
        for text, finished in zip(batch.texts, batch.finished.tolist(), strict=True)
    ]
    broken = torch.tensor([answer is None for answer in answers])
    context.metrics["malformed"] = context.metrics.get("malformed", 0.0) + float(broken.sum())
    fixed = torch.full((len(answers),), config.malformed)
    stand_in = next((answer for answer in answers if answer is not None), None)
    if stand_in is None:
        return fixed
    # the scores of broken ones are not read; a text that is scored anyway stands there
    told = tuple(stand_in if answer is None else answer for answer in answers)
    failed = context.metrics.get("scorer_failed", 0.0)
    rewards = fixed.where(broken, scorer(replace(batch, texts=told), context, config=config))
    context.metrics["scorer_failed"] = failed + float(rewards.isnan().sum())  # not those of stand-ins
    return rewards


def answer_of(text: str, grammar: Grammar) -> str | None:
    """Return the last block of a response with its tags; None for one of another form."""
    found = blocks(text, grammar)
    if tuple(block.tag for block in found) != grammar.tags or not found[-1].text.strip():
        return None
    ends, starts = [0, *(block.end for block in found)], [*(block.start for block in found), len(text)]
    if any(text[end:start].strip() for end, start in zip(ends, starts, strict=True)):
        return None
    return text[found[-1].start : found[-1].end]
