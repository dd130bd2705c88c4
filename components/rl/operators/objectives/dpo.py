"""DPO on pairs of responses, over all of their tokens or the tokens after a shared prefix."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.errors import InputError
from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class DpoConfig(ObjectiveConfig):
    """How strongly the policy is tied to the reference."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs"})
    takes: ClassVar[frozenset[str]] = frozenset({"suffix_n"})
    silent_at_zero: ClassVar[bool] = False
    whole_groups: ClassVar[bool] = True
    beta: float = Field(default=0.1, gt=0)
    """Scale of the log-ratios: the smaller, the further the policy may move."""


def dpo(scores: TokenScores, batch: Batch, context: SlotContext, *, config: DpoConfig) -> TokenLoss:
    """Return on every token of a pair -log sigmoid(beta (h_right - h_wrong)), h = sum of log pi - log pi_ref.

    The sum is over the tokens marked by `suffix_n`, or over all without the mark. With denominator responses this is
    the mean over pairs. Metrics: `dpo_accuracy`, pairs ranked right; `dpo_margin`, the argument of the sigmoid.
    Source: Rafailov et al. 2023, DPO (arXiv:2305.18290), eq. 7; on suffixes Setlur et al. 2024 (arXiv:2406.14532).
    Raises InputError if a group is not one right and one wrong response.
    """
    import torch

    from components.rl.batch.batch import RIGHT

    right_s = batch.outcomes == RIGHT
    if bool(((batch.group_sizes != 2) | (batch.group_sum(right_s.long()) != 1)).any()):
        raise InputError(
            "objective dpo: every group must be one right and one wrong response (guidance critical_pairs)"
        )
    logratio_n = scores.logprobs - batch.reference_logprobs
    if "suffix_n" in batch.extras:
        logratio_n = logratio_n * batch.extras["suffix_n"]
    sign_s = torch.where(right_s, 1.0, -1.0).to(logratio_n.dtype)
    margin_s = config.beta * batch.group_sum(sign_s * batch.response_sum(logratio_n))
    loss_s = torch.nn.functional.softplus(-margin_s)
    shown_s = margin_s.detach()
    metrics = {"dpo_accuracy": batch.to_tokens((shown_s > 0).float()), "dpo_margin": batch.to_tokens(shown_s)}
    return TokenLoss(batch.to_tokens(loss_s), metrics)
