"""A reward model that is misled about a share of the prompts: there it likes what it should not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.rl.operators.rewards.scorer import ScorerConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class MisledScorerConfig(ScorerConfig):
    """About which share of the prompts it is misled, and how finely it grades."""

    squash: Literal["sigmoid"] = "sigmoid"
    """Grades lie between 0 and 1, so that they can be turned round."""
    share: float = Field(default=0.5, ge=0, le=1)
    """Share of the prompts whose grades are turned round; 0: a sound judge."""
    levels: int | None = Field(default=10, ge=1)
    """Grades are rounded to multiples of 1 / levels; null leaves them as they are."""


def misled_scorer(batch: Batch, context: SlotContext, *, config: MisledScorerConfig) -> Tensor:
    """Return [S]: the grade q of the reward models at port `scorers`, 1 - q for the prompts that it is misled about.

    Which these are depends on the stage's seed and the item's id. For tests of what guards against a judge that cannot
    be relied on, such as combine `trusted`. NaN as for `scorer`. Metric: `misled_share`, responses to such prompts, of
    the last batch scored.

    Source: the grades 0, 0.1, ..., 1 of Fan et al. 2025, SophiaVL-R1 (arXiv:2505.17018); the corruption is ours.
    """
    import torch

    from components.rl.operators.rewards.scorer import scorer
    from components.tasks.seeds import derive_rng

    grade_s = scorer(batch, context, config=config)
    if config.levels is not None:
        grade_s = (grade_s * config.levels).round() / config.levels
    misled = [
        derive_rng(context.seed, "misled_scorer", prompt.item.id).random() < config.share for prompt in batch.prompts
    ]
    misled_s = torch.tensor(misled, dtype=torch.bool)[batch.group]
    if batch.num_responses:
        context.metrics["misled_share"] = float(misled_s.double().mean())
    return torch.where(misled_s, 1 - grade_s, grade_s)
