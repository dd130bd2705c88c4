"""CODPO: online DPO on each prompt's best response that satisfies the constraints and the worst that does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.batch.token_loss import TokenLoss
from components.rl.configs import Denominator, ObjectiveConfig
from components.rl.step.context import SlotContext
from components.rl.task_config import TaskConfig

if TYPE_CHECKING:
    from components.modeling.packing.logprobs import TokenScores
    from components.rl.batch.batch import Batch


class CodpoConfig(TaskConfig, ObjectiveConfig):
    """How strongly the policy is tied to the reference and to the chosen responses."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs"})
    silent_at_zero: ClassVar[bool] = False
    whole_groups: ClassVar[bool] = True
    beta: float = Field(default=0.1, gt=0)
    """Scale of the log-ratios: the smaller, the further the policy may move."""
    sft: float = Field(default=5.0, ge=0)
    """lambda: weight of the negative log-likelihood of the chosen response, mean per token of it."""
    denominator: Denominator = "responses"
    """responses: the mean over pairs; the policy gradient of other domains is a mean over responses then."""


def codpo(scores: TokenScores, batch: Batch, context: SlotContext, *, config: CodpoConfig) -> TokenLoss:
    """Return at the chosen response of each pair -log sigmoid(beta (h_w - h_l)) - lambda / |y_w| log pi(y_w).

    h = log pi - log pi_ref of a whole response. Of the policy's own responses to a prompt y_w is the one with the
    highest reward and y_l that with the lowest. There is no pair where no reward is above 0, that is, where nothing
    satisfies the constraints, or where all are equal. With combine `constrained_rank` what violates one is rejected
    first; filter `score_rank` (bw) spares the passes over the others. The loss is `task_weight` times the mean over
    pairs. In other domains it is the policy gradient, -A log pi(y). Metrics, 0 at tokens of no pair: `codpo_paired`,
    1 at those of one; `codpo_margin`, the argument of the sigmoid.

    Source: Xu et al. 2024, The Perfect Blend (CGPO, arXiv:2409.20370), constrained online DPO, eq. 14 as the unmerged
    CGPOTrainer of TRL (pull request 2190) has it; lambda is that trainer's default.
    """
    import torch

    from components.rl.batch.tasks import of_domains

    whole = batch if context.minibatch is None else context.minibatch
    share = config.task_weight * whole.num_traces / max(1, len(pairs_of(whole, config)))
    pairs = pairs_of(batch, config)
    shape = torch.tensor(pairs, dtype=torch.long, device=batch.group.device).reshape(-1, 2)
    chosen_t, rejected_t = shape.unbind(1)
    ratio_t = batch.of_traces(batch.response_sum(scores.logprobs - batch.reference_logprobs))
    mean_t = batch.of_traces(batch.response_mean(scores.logprobs))
    margin_p = config.beta * (ratio_t[chosen_t] - ratio_t[rejected_t])
    loss_p = share * (torch.nn.functional.softplus(-margin_p) - config.sft * mean_t[chosen_t])
    loss_t = ratio_t.new_zeros(batch.num_traces).index_add(0, chosen_t, loss_p)
    elsewhere_s = ~of_domains(batch, config.domains)
    gradient_s = -batch.response_mean(batch.advantages) * batch.response_sum(scores.logprobs)
    loss_s = torch.where(elsewhere_s, gradient_s, batch.to_rows(loss_t))
    shown = {"codpo_paired": torch.ones_like(margin_p), "codpo_margin": margin_p.detach()}
    both = shape.flatten()
    return TokenLoss(
        batch.to_tokens(loss_s),
        {
            name: batch.to_tokens(
                batch.to_rows(ratio_t.new_zeros(batch.num_traces).index_add(0, both, value.repeat_interleave(2)))
            )
            for name, value in shown.items()
        },
    )


def pairs_of(batch: Batch, config: CodpoConfig) -> list[tuple[int, int]]:
    """Return the trajectories (chosen, rejected) of each group that has a pair; of equal rewards the first."""
    from components.rl.batch.tasks import of_domains

    own_s = of_domains(batch, config.domains) & ~batch.external
    groups: dict[int, list[tuple[float, int]]] = {}
    columns = (batch.group, own_s, batch.rewards)
    for trace, (group, own, reward) in enumerate(
        zip(*(batch.of_traces(column).tolist() for column in columns), strict=True)
    ):
        if own:
            groups.setdefault(group, []).append((reward, trace))
    pairs = []
    for found in groups.values():
        best, worst = max(found, key=lambda one: one[0]), min(found, key=lambda one: one[0])
        if best[0] > max(0.0, worst[0]):
            pairs.append((best[1], worst[1]))
    return pairs
