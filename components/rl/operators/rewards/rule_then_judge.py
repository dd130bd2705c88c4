"""A judge as a verifier behind a rule: a verifier decides first, and only where it cannot the judge is asked."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from pydantic import Field, field_validator

from components.contract.operators import OperatorSpec
from components.rl.operators.rewards.judge import JudgeRewardConfig, judge
from components.rl.step.context import SlotContext
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.slots import VERIFIER

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class RuleThenJudgeConfig(JudgeRewardConfig):
    """The rule, and which of its verdicts stand."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})
    rule: Annotated[OperatorSpec, VERIFIER] = Field(default=OperatorSpec(name="exact"))
    """Verifier that decides first, by the item's answer and data; the item's own verifier is not asked."""
    decides: Literal["right", "wrong", "both"] = "right"
    """Which of its verdicts stand. right: equal texts are right, and of all others the judge is asked. wrong: only what
    passes the rule comes before the judge. both: the judge is asked only where the rule has FAILED, as it always is."""

    final_answer: bool = False
    """Whether the judge reads the final answer alone, as verifiers do, in the place of the whole response."""

    @field_validator("rule")
    @classmethod
    def _known(cls, spec: OperatorSpec) -> OperatorSpec:
        spec.resolve()
        return spec


def rule_then_judge(batch: Batch, context: SlotContext, *, config: RuleThenJudgeConfig) -> Tensor:
    """Return [S] in [0, 1]: the rule's score where its verdict stands, else what reward `judge` says.

    NaN where neither can say. Metrics: `rule_decided`, the share of responses of which no judge was asked; those of
    `judge`, over the others.

    Source: Su et al. 2025 (arXiv:2503.23829) and Ma et al. 2025, General-Reasoner (arXiv:2505.14652): rules are exact
    where they apply, and a model is asked about answers in free form.
    """
    import torch

    from components.rl.batch.texts import items_of, verified_texts

    texts = verified_texts(batch)
    decided = _by_rule(items_of(batch), texts, config)
    rewards = torch.tensor([math.nan if score is None else score for score in decided])
    open_rows = torch.tensor([score is None for score in decided])
    context.metrics["rule_decided"] = 1 - float(open_rows.float().mean())
    if bool(open_rows.any()):
        shown = replace(batch, texts=tuple(map(extract_answer, texts))) if config.final_answer else batch
        rewards[open_rows] = judge(shown.select(open_rows), context, config=config)
    return rewards


def _by_rule(items: list[Item], texts: list[str], config: RuleThenJudgeConfig) -> list[float | None]:
    """Return the rule's score of each response; None where its verdict does not stand, or is none."""
    from components.modeling.ranks import current_ranks
    from components.tasks.verify import Outcome, verify_all

    asked = {(item.id, text): _by(item, config.rule) for item, text in zip(items, texts, strict=True)}

    def compute() -> list[float | None]:
        # one rank computes: a verifier may time out on one and not on another
        verdicts = verify_all((item, text) for (_, text), item in asked.items())
        stands = {"right": {Outcome.RIGHT}, "wrong": {Outcome.WRONG}, "both": {Outcome.RIGHT, Outcome.WRONG}}
        return [one.score if one.outcome in stands[config.decides] else None for one in verdicts]

    known = dict(zip(asked, current_ranks().first_says(compute), strict=True))
    return [known[item.id, text] for item, text in zip(items, texts, strict=True)]


def _by(item: Item, rule: OperatorSpec) -> Item:
    """Return the item as the rule sees it."""
    data = {key: value for key, value in item.data.items() if key != "settings"}
    settings = {"settings": rule.settings} if rule.settings else {}
    return item.model_copy(update={"verifier": rule.name, "data": {**data, **settings}})
