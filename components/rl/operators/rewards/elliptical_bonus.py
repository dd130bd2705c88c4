"""RepExp's bonus: responses whose hidden states point where others of their group do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class EllipticalBonusConfig(RewardConfig):
    """Which states are compared, and who gets the bonus; `weight` is beta."""

    policy: Literal["start", "trained"] = "start"
    """Whose hidden states: those of the frozen starting policy, or of the trained one."""
    layer: int = -1
    """The layer, as in hidden_states of transformers: -1 the last."""
    dimensions: int | None = Field(default=32, ge=1)
    """Width after a sparse random projection that is drawn anew at every step; null for none."""
    ridge: float = Field(default=0.01, gt=0)
    """lambda: what is added to the diagonal of the sum of squares; smaller values let small differences count."""
    groups: Literal["with_right", "all"] = "with_right"
    """with_right: a group without a right response gets no bonus."""
    responses: Literal["all", "right"] = "all"
    """right: wrong responses get no bonus; they count in the sum of squares all the same."""


def elliptical_bonus(batch: Batch, context: SlotContext, *, config: EllipticalBonusConfig) -> Tensor:
    """Return [S]: h' (ridge I + sum over the group of h h')^-1 h, between 0 and 1.

    h is the mean hidden state of a response's tokens, projected, less the mean of its group. Metric
    `elliptical_bonus`: the mean over responses that may get it.
    Source: Tuyls et al. 2025, Representation-Based Exploration for Language Models (arXiv:2510.11686), and the
    released trainer (verl recipe/rep_exp): reward type leverage, without a square root, projected before it is centred.
    """
    import torch

    from components.measure.formulas.leverage import leverages, sparse_projection
    from components.rl.batch.batch import RIGHT
    from components.rl.step.states import response_features

    policies = context.policies
    policy = policies.start if config.policy == "start" else policies.trained
    found = response_features(policy, batch, max_tokens=context.collector.max_tokens, layer=config.layer).double()
    if config.dimensions is not None:
        generator = torch.Generator().manual_seed(context.seed * 1_000_003 + context.step)
        found = found @ sparse_projection(found.shape[1], config.dimensions, generator)
    features, group_t = batch.of_traces(found), batch.of_traces(batch.group)
    bonus_t = torch.zeros(batch.num_traces, dtype=torch.float64)
    for group in group_t.unique().tolist():
        own = (group_t == group).nonzero().squeeze(1)
        bonus_t[own] = leverages(features[own] - features[own].mean(0), config.ridge)
    right_s = batch.outcomes == RIGHT
    gets_s = right_s if config.responses == "right" else torch.ones_like(right_s)
    if config.groups == "with_right":
        gets_s = gets_s & (batch.group_sum(right_s.long()) > 0)
    bonus_s = batch.to_rows(bonus_t)
    if bool(gets_s.any()):
        context.metrics["elliptical_bonus"] = float(bonus_s[gets_s].mean())
    return (bonus_s * gets_s).float()
