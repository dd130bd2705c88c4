"""A judge's verdict on the final answer alone, less a price for an answer of another length than the reference."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.operators.rewards.judge import JudgeRewardConfig, judge
from components.rl.step.context import SlotContext
from components.tasks.given_answers import given_answer

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class JudgedAnswerConfig(JudgeRewardConfig):
    """What verdicts are worth, and the price of length."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})
    right_above: float = Field(default=0.5, ge=0, lt=1)
    """A verdict above it counts as yes."""
    unanswered: float = -0.5
    """Reward of a response without a final answer; the judge is not asked about it."""
    per_token: float = Field(default=0.05, ge=0)
    """What each token costs by which an answer is longer or shorter than the reference."""
    most_tokens: int = Field(default=10, ge=0)
    """Tokens of difference that cost, at most."""


def judged_answer(batch: Batch, context: SlotContext, *, config: JudgedAnswerConfig) -> Tensor:
    """Return [S]: `unanswered` without a final answer, 0 for a no of the judge, and for a yes
    1 - per_token * min(most_tokens, |tokens of the answer - tokens of the reference|).

    The judge reads the answer as {response} and the reference as {answer}; tokens are the policy's. The price keeps a
    policy from stuffing its answer. NaN where the judge cannot be read. Metrics: those of `judge`, over answers; and
    `unanswered_share`, `length_price`, the mean price of a yes.

    Source: Ma et al. 2025, General-Reasoner (arXiv:2505.14652), and its released reward function.
    """
    import torch

    from components.rl.batch.texts import items_of, verified_texts

    found = [given_answer(text) for text in verified_texts(batch)]
    answered = torch.tensor([answer is not None for answer in found])
    context.metrics["unanswered_share"] = float((~answered).float().mean())
    rewards = torch.full((batch.num_responses,), config.unanswered)
    if not bool(answered.any()):
        return rewards
    answers = [answer for answer in found if answer is not None]
    asked = replace(batch.select(answered), texts=tuple(answers))
    verdicts = judge(asked, context, config=config)
    prices = torch.tensor(_prices(answers, [item.answer for item in items_of(asked)], context, config))
    yes = verdicts > config.right_above
    if bool(yes.any()):
        context.metrics["length_price"] = float(prices[yes].mean())
    rewards[answered] = torch.where(yes, 1 - prices, 0.0).masked_fill(verdicts.isnan(), torch.nan)
    return rewards


def _prices(answers: list[str], references: list[str], context: SlotContext, config: JudgedAnswerConfig) -> list[float]:
    """Return what each answer's length costs."""
    tokenizer = context.policies.trained.tokenizer
    assert tokenizer is not None
    known = {text: len(tokenizer.encode(text, add_special_tokens=False)) for text in {*answers, *references}}
    gaps = (abs(known[answer] - known[reference]) for answer, reference in zip(answers, references, strict=True))
    return [config.per_token * min(config.most_tokens, gap) for gap in gaps]
