"""CRRAFT: of each prompt's responses the best one that satisfies everything, weighed by its reward."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.rl.configs import AdvantageConfig
from components.rl.step.context import SlotContext
from components.rl.task_config import TaskConfig

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class CrraftConfig(TaskConfig, AdvantageConfig):
    """How far a response may be from the reference."""

    reads: ClassVar[frozenset[str]] = frozenset({"reference_logprobs"})
    kl_max: float = Field(gt=0)
    """KL_max: nats of divergence beyond which a whole response has no reward."""


def crraft(batch: Batch, context: SlotContext, *, config: CrraftConfig) -> Tensor:
    """Return [N]: in its domains R~ of each prompt's best response and 0 of the others, R~ = max(R, 0) [KL <= kl_max].

    R is the calibrated reward where the constraints hold, and 0 or less where they do not. Where no response of the
    policy has R~ > 0, an external one of the group is taken (guidance `baseline_answers`), if it has; else the prompt
    is skipped. Values are scaled by `task_weight` and by all responses of the batch over the prompts that are learned
    from, so that under objective policy_gradient with `denominator: constant, constant: 1` the loss is a sum over tasks
    of each one's mean over prompts. Other domains keep what the operators before it gave them. Metrics by domain:
    `divergence_<domain>`, nats; `beyond_kl_max_<domain>`, a share; and of all its prompts `crraft_learned`, the share
    that is learned from, and `crraft_baselines`, the share learned from an external response.

    Source: Xu et al. 2024, The Perfect Blend (CGPO, arXiv:2409.20370), calibrated-regularized reward ranking
    finetuning, as in the unmerged CGPOTrainer of TRL (pull request 2190), eq. 18 there.
    """
    import torch

    from components.rl.batch.tasks import divergence_of, means_by_domain, of_domains

    here_s, divergence_s = of_domains(batch, config.domains), divergence_of(batch)
    regularised_s = batch.rewards.clamp(min=0).masked_fill(divergence_s > config.kl_max, 0.0)
    measured = {"divergence": divergence_s, "beyond_kl_max": (divergence_s > config.kl_max).float()}
    context.metrics.update(means_by_domain(batch, here_s & ~batch.external, measured))
    best = _best(batch, here_s, regularised_s)
    taken = [trace for trace in best.values() if trace is not None]
    if best:
        external_t = batch.of_traces(batch.external)
        context.metrics["crraft_learned"] = len(taken) / len(best)
        context.metrics["crraft_baselines"] = sum(bool(external_t[trace]) for trace in taken) / len(best)
    chosen_t = torch.zeros(batch.num_traces, dtype=torch.bool)
    chosen_t[taken] = True
    scale = config.task_weight * batch.num_traces / max(1, len(taken))
    advantage_s = (scale * regularised_s).masked_fill(~batch.to_rows(chosen_t), 0.0)
    return batch.advantages.where(~batch.to_tokens(here_s), batch.to_tokens(advantage_s))


def _best(batch: Batch, here_s: Tensor, regularised_s: Tensor) -> dict[int, int | None]:
    """Return group -> the trajectory that it learns from, None without one; of equal ones the first."""
    columns = (batch.group, here_s, batch.external, regularised_s)
    best: dict[int, tuple[bool, float, int] | None] = {}
    for trace, (group, here, external, reward) in enumerate(
        zip(*(batch.of_traces(column).tolist() for column in columns), strict=True)
    ):
        if not here:
            continue
        before = best.setdefault(group, None)
        if reward > 0 and (before is None or (not external, reward) > before[:2]):
            best[group] = (not external, reward, trace)
    return {group: None if found is None else found[2] for group, found in best.items()}
