"""The loss of one response by itself: classification of its label, or regression to its score."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from components.contract.errors import InputError
from components.reward_model.config import ScorerLossConfig
from components.tasks.row_kinds.reading import Kind

if TYPE_CHECKING:
    from torch import Tensor

    from components.reward_model.scored import Scored


class PointwiseConfig(ScorerLossConfig):
    """What a response is fitted to, and how."""

    rows: ClassVar[Kind] = "labelled"
    loss: Literal["cross_entropy", "squared_error"] = "cross_entropy"
    """cross_entropy: the sigmoid of the reward is the chance of a good response. squared_error: the reward is its
    score."""
    on: Literal["label", "score"] = "label"
    """Which column: `label` (true or false) or `score` (a number; from 0 to 1 for cross_entropy)."""

    @property
    def chances(self) -> bool:
        """Return whether the sigmoid of a reward is a chance."""
        return self.loss == "cross_entropy"

    def target(self, label: bool | None, score: float | None) -> float:
        """Return the label as 1 or 0, or the score."""
        value = label if self.on == "label" else score
        if value is None:
            raise InputError(f"it has no {self.on}, which scorer_loss pointwise is fitted to")
        if self.loss == "cross_entropy" and not 0 <= value <= 1:
            raise InputError(f"score {value:g} is no probability: take `loss: squared_error`")
        return float(value)


def pointwise(scored: Scored, *, config: PointwiseConfig) -> Tensor:
    """Return [U]: -y log sigmoid(r) - (1 - y) log sigmoid(-r), or (r - y)^2.

    Cross-entropy: Cobbe et al. 2021 (arXiv:2110.14168), outcome verifiers; squared error: Wang et al. 2024
    (HelpSteer2, arXiv:2406.08673), regression to ratings.
    """
    import torch

    reward = scored.outputs.squeeze(-1)
    if config.loss == "squared_error":
        return (reward - scored.targets).square()
    return torch.nn.functional.binary_cross_entropy_with_logits(reward, scored.targets, reduction="none")
