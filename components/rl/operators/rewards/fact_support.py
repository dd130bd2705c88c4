"""KnowRL's factual support: facts of the thought that a store confirms, as a consolation for a wrong answer."""

from __future__ import annotations

import math
import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.contract.regular import RegularExpression
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.answers import ANSWER_OPEN

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class FactSupportConfig(RewardConfig):
    """What a fact looks like, where the store is, and how support is counted."""

    fact: RegularExpression = Field(default=r"\d:[a-z]", min_length=1)
    """Regular expression of one stated fact in the thought, the text before the answer's mark."""
    store: str = "facts"
    """Key of the item's data that lists the true facts; another spelling of a fact is not found there."""
    counted: Literal["share", "number"] = "share"
    """share: of the stated facts, as in the authors' code. number: of supported ones over `norm`, as in the paper."""
    gamma: int = Field(default=10, ge=0)
    """Share: with n stated facts, at most gamma, it is multiplied by exp(1 - gamma / n); 0 for no such factor."""
    norm: int = Field(default=15, ge=1)
    """Number: supported facts that give 1."""


def fact_support(batch: Batch, context: SlotContext, *, config: FactSupportConfig) -> Tensor:
    """Return [S]: the support f in [0, 1] of the thought's facts for wrong answers that do not refuse, else 0.

    A refusal is an answer with a score above 0 that is not right, as verifier `factual` gives it. So facts cannot be
    farmed beside a right answer; nor by repetition, since equal facts count once. Without a store nothing is supported.
    Source: KnowRL (zjunlp/KnowRL, combined_reward.py: -1 becomes -1 + f, other verdicts stay; fact_reward.py: the share
    of FActScore with gamma 10, and min(supported / 15, 1) in a comment). Entailment by a model is an exact match here.
    """
    import torch

    from components.rl.batch.batch import WRONG

    pattern = re.compile(config.fact)
    consoled = (batch.outcomes == WRONG) & (context.collector.scores(batch) == 0)
    found = torch.zeros(len(batch.texts))
    for row in consoled.nonzero().flatten().tolist():
        store = batch.prompts[int(batch.group[row])].item.data.get(config.store) or ()
        thought = batch.texts[row].rpartition(ANSWER_OPEN)[0]
        found[row] = support({match[0] for match in pattern.finditer(thought)}, set(map(str, store)), config)
    return found


def support(stated: Collection[str], store: Collection[str], config: FactSupportConfig) -> float:
    """Return how far the store supports different stated facts; 0 where none is stated."""
    supported = sum(fact in store for fact in stated)
    if config.counted == "number":
        return min(supported / config.norm, 1.0)
    if not stated:
        return 0.0
    penalty = math.exp(1 - config.gamma / len(stated)) if len(stated) <= config.gamma else 1.0
    return penalty * supported / len(stated)
