"""Several heads on one network, each of which gives the mean and the spread of a Gaussian reward."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

from pydantic import Field

from components.modeling.scorers.layout import Layout
from components.reward_model.config import ScorerLossConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.reward_model.scored import Scored


class GaussianEnsembleConfig(ScorerLossConfig):
    """How many heads there are, and what each learns from."""

    heads: int = Field(default=5, ge=2)
    """Heads; each has two outputs: the mean, and the logarithm of the standard deviation."""
    share: float = Field(default=0.8, gt=0, le=1)
    """Chance that a head learns from a pair: heads that saw other pairs differ more."""

    def layout(self) -> Layout:
        """Return all means, then all log standard deviations; the reward is the mean of the means."""
        return Layout(outputs=2 * self.heads, reward="mean_of_gaussians")


def gaussian_ensemble(scored: Scored, *, config: GaussianEnsembleConfig) -> Tensor:
    """Return [U]: the mean over heads of -log of the chance that the chosen reward is preferred.

    r_chosen - r_rejected is Gaussian with mean d and variance v, the sum of both variances; the chance E[sigmoid] is
    taken as sigmoid(d / sqrt(1 + pi v / 8)) (MacKay 1992). A head's pairs are drawn by seed, pair and head. Spreads are
    bounded (LOG_STD of components/modeling/scorers/layout.py).

    Source: Yan et al. 2024, Reward-Robust RLHF in LLMs (arXiv:2409.15360): heads with means and spreads, trained on
    pairs. Reconstructed: the loss in closed form, subsets of pairs, and the bound of spreads.
    """
    import torch

    (chosen, of_chosen), (rejected, of_rejected) = (config.layout().gaussians_of(side) for side in scored.sides)
    difference = chosen - rejected
    variance = (2 * of_chosen).exp() + (2 * of_rejected).exp()
    losses = -torch.nn.functional.logsigmoid(difference / (1 + math.pi / 8 * variance).sqrt())
    seen = torch.tensor([_seen(scored.seed, number, config) for number in scored.numbers]).to(losses)
    return (losses * seen).sum(-1) / (config.heads * config.share)


def _seen(seed: int, number: int, config: GaussianEnsembleConfig) -> list[bool]:
    """Return which heads learn from a pair."""
    rng = random.Random(f"{seed}/{number}")
    return [rng.random() < config.share for _ in range(config.heads)]
