"""LaSeR's loss: the policy's own score of a response is drawn towards its verified outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import RegularizerConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class SelfRewardMSEConfig(RegularizerConfig):
    """The weight, alpha, and when it begins."""

    reads: ClassVar[frozenset[str]] = frozenset({"after_token_s", "self_reference_s", "self_scale_s"})
    coefficient: float = Field(default=0.1, ge=0)
    """Weight of the term in the loss."""
    denominator: Literal["responses"] = "responses"
    """The mean over responses."""
    balanced: bool = True
    """Whether right and wrong responses have the same total weight: n / (2 times the number of the class)."""
    warmup_steps: int = Field(default=0, ge=0)
    """Steps before the term begins, in which the policy learns to answer."""


def self_reward_mse(
    scores: TokenScores, batch: Batch, context: SlotContext, *, config: SelfRewardMSEConfig
) -> TokenLoss:
    """Return, at each response's last token, coefficient * w (r - R)^2, whose sum is the mean over responses.

    r = scale (log p(token | prompt, response) - reference), differentiable, by the marks of annotate self_reward; R is
    1 for a right response and 0 for another. Responses that were cut off count in the mean, with 0. w balances the
    classes of finished responses of the minibatch. Metric `self_reward_error`: (r - R)^2.
    Source: Yang et al. 2025, LaSeR (arXiv:2510.14943), and its released actor.
    """
    import torch

    from components.rl.batch.batch import RIGHT
    from components.rl.batch.returns import at_last

    assert scores.after is not None
    reward_s = batch.extras["self_scale_s"] * (scores.after - batch.extras["self_reference_s"])
    right_s = batch.outcomes == RIGHT
    error_s = (reward_s - right_s.to(reward_s.dtype)).square()
    finished_s = batch.to_rows(~batch.any_of_traces(~batch.finished))
    weight_s = finished_s.to(error_s.dtype)
    if config.balanced:
        of_right, of_wrong = class_weights(batch if context.minibatch is None else context.minibatch)
        weight_s = weight_s * torch.where(right_s, of_right, of_wrong)
    if context.step < config.warmup_steps:
        weight_s = torch.zeros_like(weight_s)
    # a token's loss is divided by its response's length, and this one stands for the response
    loss_n = at_last(batch, config.coefficient * weight_s * error_s * batch.response_lengths)
    return TokenLoss(loss_n, {"self_reward_error": batch.to_tokens(error_s.detach() * finished_s)})


def class_weights(batch: Batch) -> tuple[float, float]:
    """Return the weights of right and of wrong responses: n / (2 n_class) of finished ones; 0 for an empty class."""
    from components.rl.batch.batch import RIGHT

    finished_t, right_t = ~batch.any_of_traces(~batch.finished), batch.of_traces(batch.outcomes == RIGHT)
    counts = int((finished_t & right_t).sum()), int((finished_t & ~right_t).sum())
    of_right, of_wrong = (sum(counts) / (2 * count) if count else 0.0 for count in counts)
    return of_right, of_wrong
