"""PACS: the outcome as a label, and the change of a response's log-probability as the classifier's score."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class PacsConfig(ObjectiveConfig):
    """How responses are scored relative to each other."""

    silent_at_zero: ClassVar[bool] = False
    whole_groups: ClassVar[bool] = True
    beta: float = Field(default=1.0, gt=0)
    """Scale of the scores."""
    score: Literal["logratio_sum", "logprob_mean"] = "logratio_sum"
    """Sum over tokens of log pi - log pi_old, or mean over tokens of log pi."""
    centring: Literal["leave_one_out", "standardise", "none"] = "leave_one_out"
    """leave_one_out: minus the mean of the others in the group. standardise: minus the group's mean, divided by its
    standard deviation (ddof 1). none: unchanged."""
    balanced: bool = True
    """Whether the two classes of a group with both outcomes get equal total weight: n / (2 n_class)."""


def pacs(scores: TokenScores, batch: Batch, context: SlotContext, *, config: PacsConfig) -> TokenLoss:
    """Return on every token the response's weight * BCE(psi_i, right_i), psi_i its centred score.

    With denominator responses this is the mean over responses. The gradient flows through all scores of a group and is
    a policy gradient with weights right - sigmoid(psi), so the sigmoid acts as a critic.
    Metric `pacs_accuracy`: share of responses whose psi has the sign of their outcome.
    Source: Li et al. 2025, PACS (arXiv:2509.02522), and its released code.
    """
    import torch.nn.functional as F

    from components.rl.batch.batch import RIGHT

    label_s = (batch.outcomes == RIGHT).to(scores.logprobs.dtype)
    psi_s = _centred(batch, _score(scores, batch, config), config)
    loss_s = F.binary_cross_entropy_with_logits(psi_s, label_s, reduction="none") * _class_weights(batch, config)
    agrees_s = ((psi_s.detach() > 0) == (label_s > 0)).float()
    return TokenLoss(
        batch.to_tokens(loss_s),
        {"pacs_accuracy": batch.to_tokens(agrees_s), "pacs_score": batch.to_tokens(psi_s.detach().abs())},
    )


def _score(scores: TokenScores, batch: Batch, config: PacsConfig) -> Tensor:
    if config.score == "logprob_mean":
        return config.beta * batch.response_mean(scores.logprobs)
    return config.beta * batch.response_sum(scores.logprobs - batch.old_logprobs)


def _centred(batch: Batch, score_s: Tensor, config: PacsConfig) -> Tensor:
    if config.centring == "none":
        return score_s
    centred_s = score_s - batch.group_mean(score_s)
    others_s = (batch.group_sizes - 1).clamp(min=1)
    if config.centring == "leave_one_out":
        return centred_s * batch.group_sizes / others_s
    spread_s = (batch.group_sum(centred_s.square()) / others_s + 1e-12).sqrt()  # a root has no gradient at 0
    return centred_s / (spread_s + 1e-6)


def _class_weights(batch: Batch, config: PacsConfig) -> Tensor:
    """Return [S]: n / (2 n_class) in groups with both outcomes, else 1."""
    import torch

    from components.rl.batch.batch import RIGHT

    right_s = (batch.outcomes == RIGHT).float()
    ones_s = torch.ones_like(right_s)
    if not config.balanced:
        return ones_s
    num_right_s, size_s = batch.group_sum(right_s), batch.group_sizes.float()
    of_class_s = torch.where(right_s > 0, num_right_s, size_s - num_right_s)
    both_s = (num_right_s > 0) & (num_right_s < size_s)
    return torch.where(both_s, size_s / (2 * of_class_s), ones_s)
