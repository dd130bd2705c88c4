"""The Bradley-Terry loss of pairs: how likely the chosen response is preferred grows with the difference of rewards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.reward_model.config import ScorerLossConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.reward_model.scored import Scored


class BradleyTerryConfig(ScorerLossConfig):
    """Margins, and where the zero of rewards lies."""

    margin: bool = False
    """Whether the difference should exceed a row's `margin`, or else its `score_chosen` less `score_rejected`, where it
    has them (Touvron et al. 2023): only for margins in the units of a reward, as they are taken as they are."""
    center_rewards_coefficient: float | None = Field(default=None, gt=0)
    """Weight of (r_chosen + r_rejected)^2, which keeps the mean reward at 0 (Eisenstein et al. 2023); null for none."""

    @property
    def chances(self) -> bool:
        """Return whether the sigmoid of a difference is a chance: not of one that had to exceed a margin."""
        return not self.margin


def bradley_terry(scored: Scored, *, config: BradleyTerryConfig) -> Tensor:
    """Return [U]: -log sigmoid(r_chosen - r_rejected - margin) + coefficient (r_chosen + r_rejected)^2.

    Bradley and Terry 1952; Ouyang et al. 2022 (arXiv:2203.02155), eq. 1; the margin: Touvron et al. 2023
    (arXiv:2307.09288), eq. 2; the square: Eisenstein et al. 2023 (arXiv:2312.09244), as in TRL's RewardTrainer.
    """
    import torch

    chosen, rejected = (side.squeeze(-1) for side in scored.sides)
    difference = chosen - rejected
    if config.margin:
        difference = difference - scored.targets
    loss = -torch.nn.functional.logsigmoid(difference)
    if config.center_rewards_coefficient is not None:
        loss = loss + config.center_rewards_coefficient * (chosen + rejected).square()
    return loss
