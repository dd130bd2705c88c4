"""CRPG: calibrated rewards that fade as the policy leaves its reference, above their mean over the task."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext
from components.rl.task_config import TaskConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class CrpgConfig(TaskConfig, AdvantageConfig):
    """How far a response may be from the reference."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs"})
    kl_max: float = Field(gt=0)
    """KL_max: nats of divergence of a whole response at which its reward has fallen to 0."""


def crpg(batch: Batch, context: SlotContext, *, config: CrpgConfig) -> Tensor:
    """Return [N]: in its domains R~ - mean of R~, R~ = max(R, 0) max(0, 1 - (log pi_old - log pi_ref) / kl_max).

    R is the calibrated reward where the constraints hold, and 0 or less where they do not (combine `constrained`,
    `constrained_rank`); the mean is over the responses of all its prompts. They are scaled by `task_weight` and by all
    responses of the batch over these, so that under objective policy_gradient with `denominator: constant, constant: 1`
    the loss is a sum over tasks of each one's mean. External responses have no advantage; other domains keep what the
    operators before it gave them. Metrics by domain: `divergence_<domain>`, nats; `beyond_kl_max_<domain>`, a share.

    Source: Xu et al. 2024, The Perfect Blend (CGPO, arXiv:2409.20370), calibrated-regularized policy gradient, as in
    the unmerged CGPOTrainer of TRL (pull request 2190), which divides by tokens: that is `denominator: tokens`.
    """
    from components.rl.batch.tasks import divergence_of, means_by_domain, of_domains

    here_s = of_domains(batch, config.domains)
    own_s, divergence_s = here_s & ~batch.external, divergence_of(batch)
    regularised_s = batch.rewards.clamp(min=0) * (1 - divergence_s / config.kl_max).clamp(min=0)
    values_t = batch.of_traces(regularised_s)[batch.of_traces(own_s)].double()
    measured = {"divergence": divergence_s, "beyond_kl_max": (divergence_s >= config.kl_max).float()}
    context.metrics.update(means_by_domain(batch, own_s, measured))
    if not len(values_t):
        return batch.advantages.masked_fill(batch.to_tokens(here_s), 0.0)
    mean = values_t[0] if bool((values_t == values_t[0]).all()) else values_t.mean()  # equal rewards: exactly 0
    scale = config.task_weight * batch.num_traces / len(values_t)
    advantage_s = (scale * (regularised_s.double() - mean)).masked_fill(~own_s, 0.0).float()
    return batch.advantages.where(~batch.to_tokens(here_s), batch.to_tokens(advantage_s))
