"""How well a response meets a rubric: criteria with weights, vetoes, tiers, saturation and interactions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from components.contract.errors import InputError
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.item import Item
from components.tasks.rubric import Rubric, checks, rubric_of

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class RubricConfig(RewardConfig):
    """Where rubrics are."""

    reads: ClassVar[frozenset[str]] = frozenset({"answers"})
    key: str = "rubric"
    """Key of the item's data that holds its rubric: a list of criteria, or a mapping with all keys of a rubric."""
    default: Rubric | None = None
    """The rubric of items without one of their own; none: such an item is an error."""


def rubric(batch: Batch, context: SlotContext, *, config: RubricConfig) -> Tensor:
    """Return [S] in [0, 1]: the rubric's points of the response over the most it can have; `veto_value` behind a veto.

    NaN where a check fails to judge. Metrics: `criterion_<name>`, the mean score of each check; `vetoed`, the share of
    responses that a veto stopped.

    Source: Huang et al. 2025, Reinforcement Learning with Rubric Anchors (Rubicon, arXiv:2508.12790), section on
    aggregation: veto, saturation, pairwise interactions; points over the positive ones as in RuscaRL
    (arXiv:2508.16949). Reconstructed: their functional forms.
    """
    import torch

    from components.modeling.ranks import current_ranks
    from components.rl.batch.texts import items_of, verified_texts

    items, texts = items_of(batch), verified_texts(batch)
    rubrics = {item.id: _rubric(item, config) for item in items}
    asked = {(item.id, text): item for item, text in zip(items, texts, strict=True)}

    def compute() -> list[list[float]]:
        # one rank computes: a check may time out on one and not on another
        return [_scores(item, rubrics[item.id], text) for (_, text), item in asked.items()]

    known = dict(zip(asked, current_ranks().first_says(compute), strict=True))
    named = [
        dict(zip([each.name for each in rubrics[item.id].criteria], known[item.id, text], strict=True))
        for item, text in zip(items, texts, strict=True)
    ]
    _report(context, [rubrics[item.id] for item in items], named)
    return torch.tensor([rubrics[item.id].total(scores) for item, scores in zip(items, named, strict=True)])


def _rubric(item: Item, config: RubricConfig) -> Rubric:
    found = rubric_of(item, config.key) or config.default
    if found is None:
        raise InputError(f"reward rubric: item {item.id} has no data.{config.key}, and there is no `default` rubric")
    return found


def _scores(item: Item, found: Rubric, text: str) -> list[float]:
    from components.tasks.verify import verify_all

    verdicts = verify_all((check, text) for check in checks(item, found))
    return [math.nan if verdict.failed else verdict.score for verdict in verdicts]


def _report(context: SlotContext, rubrics: list[Rubric], named: list[dict[str, float]]) -> None:
    """Write the mean score of every criterion that could be checked, and the share of vetoed responses."""
    found: dict[str, list[float]] = {}
    for scores in named:
        for name, score in scores.items():
            if not math.isnan(score):
                found.setdefault(name, []).append(score)
    context.metrics.update({f"criterion_{name}": math.fsum(values) / len(values) for name, values in found.items()})
    if any(criterion.veto for rubric in rubrics for criterion in rubric.criteria):
        stopped = [
            any(each.veto and scores[each.name] < rubric.veto_below for each in rubric.criteria)
            for rubric, scores in zip(rubrics, named, strict=True)
        ]
        context.metrics["vetoed"] = sum(stopped) / len(stopped)
