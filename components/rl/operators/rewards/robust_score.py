"""A reward between what an ensemble's surest head says of a response and what its harshest head says."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.further import SCORERS
from components.contract.heads import Head
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class RobustScoreConfig(RewardConfig):
    """Which ensemble is asked, and how far its worst case counts."""

    asks: ClassVar[tuple[str, ...]] = (SCORERS,)
    asks_heads: ClassVar[frozenset[Head]] = frozenset({Head.SCORE})
    model: str | None = None
    """The ensemble, as the recipe names it ("ensemble.model"); null: the only model at the port."""
    nominal: float = Field(default=0.6, ge=0, le=1)
    """lambda: the share of the nominal reward. 1: the surest head alone, as without robustness; 0: the worst case."""


def robust_score(batch: Batch, context: SlotContext, *, config: RobustScoreConfig) -> Tensor:
    """Return [S]: lambda mu_k + (1 - lambda) min over heads of mu, where k is the head with the smallest spread.

    The ensemble is a reward model of scorer_loss gaussian_ensemble at port `scorers`. NaN, a failed verification, where
    it cannot score a response. Metrics, means over the responses of the last batch scored: `robust_disagreement`, the
    standard deviation of the heads' means; `robust_penalty`, the nominal reward less the worst; `robust_failed`,
    responses without a score in the whole step.

    Source: Yan et al. 2024, Reward-Robust RLHF in LLMs (arXiv:2409.15360): nominal reward by the smallest spread, and
    the convex mixture. The value of lambda is reconstructed.
    """
    import torch

    from components.rl.batch.asked import asked_pairs, model_named

    told = model_named(context.further[SCORERS], config.model, "robust_score").opinions(asked_pairs(batch))
    known_s = torch.tensor([one is not None for one in told], dtype=torch.bool)
    context.metrics["robust_failed"] = context.metrics.get("robust_failed", 0.0) + float((~known_s).sum())
    found_s = torch.full((len(told),), torch.nan)
    known = [one for one in told if one is not None]
    if not known:
        return found_s
    means = torch.tensor([one.means for one in known], dtype=torch.float64)
    surest = torch.tensor([one.log_stds for one in known], dtype=torch.float64).argmin(-1, keepdim=True)
    nominal, worst = means.gather(-1, surest).squeeze(-1), means.min(-1).values
    context.metrics["robust_disagreement"] = float(means.std(-1, correction=0).mean())
    context.metrics["robust_penalty"] = float((nominal - worst).mean())
    found_s[known_s] = (config.nominal * nominal + (1 - config.nominal) * worst).float()
    return found_s
