"""ACE: larger penalties for wrong responses that training has made more likely."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class AceConfig(AdvantageConfig):
    """How the penalty grows with the shift of confidence."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs"})
    alpha: float = Field(default=1.0, ge=0)
    """Weight of the extra penalty; 0 leaves all advantages as they are."""
    growth: Literal["softplus", "relu"] = "softplus"
    """softplus: log(1 + e^c), smooth and never quite 0. relu: max(c, 0)."""
    limit: float | None = Field(default=5.0, gt=0)
    """Upper bound of the growth; null for none."""
    reduce: Literal["sum", "mean"] = "sum"
    """The shift of a response: the sum over its tokens, which grows with length, or the mean."""


def ace(batch: Batch, context: SlotContext, *, config: AceConfig) -> Tensor:
    """Return [N]: negative advantages times 1 + alpha g(c), the others unchanged.

    c = log pi_old(response) - log pi_ref(response): the shift since training began, computed once per step.
    Source: Xu et al. 2026, Overconfident Errors Need Stronger Correction (arXiv:2602.21420); the bound and the mean
    over tokens are additions.
    """
    import torch

    shift_n = batch.old_logprobs - batch.reference_logprobs
    shift_s = batch.response_sum(shift_n) if config.reduce == "sum" else batch.response_mean(shift_n)
    growth_s = torch.nn.functional.softplus(shift_s) if config.growth == "softplus" else shift_s.clamp(min=0)
    if config.limit is not None:
        growth_s = growth_s.clamp(max=config.limit)
    penalised_n = batch.advantages * (1 + config.alpha * batch.to_tokens(growth_s))
    return torch.where(batch.advantages < 0, penalised_n, batch.advantages)
