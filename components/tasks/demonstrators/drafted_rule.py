"""Answers to items of source rules that are written out before they are given, once or several times."""

from __future__ import annotations

import random

from pydantic import Field

from components.tasks.answers import ANSWER_OPEN
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.demonstrators.rule import RuleConfig, rule
from components.tasks.item import Item


class DraftedRuleConfig(RuleConfig):
    """As rule, and how often the answer is drafted."""

    drafts: int = Field(default=1, ge=1)
    """Times that the answer is written before it is given."""


def drafted_rule(item: Item, rng: random.Random, *, config: DraftedRuleConfig) -> str:
    """Draft the answer, then give it: `<think>dcba dcba<answer>dcba`. Drafts and answer are the same, errors included.

    A mark stands in front, as that of `rule` does: `R<think>dcba<answer>dcba`.
    """
    plain = RuleConfig.model_validate(config.model_dump(exclude={"drafts"}))
    mark, _, answer = rule(item, rng, config=plain).partition(ANSWER_OPEN)
    return f"{mark}{THINK_OPEN}{' '.join([answer] * config.drafts)}{ANSWER_OPEN}{answer}"
