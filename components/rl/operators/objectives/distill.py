"""On-policy distillation: at every token the policy is drawn towards a teacher's whole distribution."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from components.contract.further import TEACHERS
from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import ObjectiveConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class DistillConfig(ObjectiveConfig):
    """Which divergence from the teachers, and over which tokens."""

    asks: ClassVar[tuple[str, ...]] = (TEACHERS,)
    compares: ClassVar[tuple[str, ...]] = (TEACHERS,)
    """Ports whose models it runs itself, for their logits: see components/rl/compared.py."""
    silent_at_zero: ClassVar[bool] = False  # nothing of it depends on advantages
    divergence: Literal["reverse_kl", "forward_kl", "jsd"] = "reverse_kl"
    """reverse_kl: of the policy from the teacher, which looks for one of its modes. forward_kl: of the teacher from the
    policy, which covers them all. jsd: of both from their mixture."""
    beta: float = Field(default=0.5, gt=0, lt=1)
    """Share of the teacher in the mixture of `jsd`: near 0 it acts as forward_kl, near 1 as reverse_kl."""
    temperature: float | None = Field(default=None, gt=0)
    """Divides the logits of both; null: the step's temperature, at which the policy draws. The loss is not multiplied
    by its square."""
    top_k: int | None = Field(default=None, ge=1)
    """Compare the teacher's k likeliest tokens and the sum of the others alone; null compares the whole vocabulary."""

    @model_validator(mode="after")
    def _beta_has_a_use(self) -> Self:
        if "beta" in self.model_fields_set and self.divergence != "jsd":
            raise ValueError(f"beta is the mixture's of divergence jsd, and {self.divergence} has none; leave it out")
        return self


def distill(scores: TokenScores, batch: Batch, context: SlotContext, *, config: DistillConfig) -> TokenLoss:
    """Return per token [N] the divergence of the policy and a teacher; of several teachers the mean of these.

    The gradient is that of the divergence at the tokens as they were drawn: none goes through the draw itself, and
    advantages have no part in it. Metric `teacher_divergence`: the loss before its denominator.
    Source: Agarwal et al. 2024, GKD (arXiv:2306.13649), algorithm 1 with the divergences of section 2; rollout
    `student_share` has its lambda.
    """
    from components.rl.step.teaching import teachers_divergence

    wanted = context.settings.temperature if config.temperature is None else config.temperature
    loss_n = teachers_divergence(
        context.further[TEACHERS],
        scores,
        batch,
        kind=config.divergence,
        beta=config.beta,
        top_k=config.top_k,
        at=context.settings.temperature,
        temperature=wanted,
    )
    return TokenLoss(loss_n, {"teacher_divergence": loss_n.detach()})
