"""Policy filtration: of each prompt's responses only those whose rank makes their learned reward reliable."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from components.measure.filtration import KEPT, Strategy, rank_weights
from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    import random

    from components.rl.batch.batch import Batch


class ScoreRankConfig(SlotConfig):
    """Which ranks are kept, or how they are weighed."""

    strategy: Strategy = "br"
    """bon: the best response. br: the best and a random one of the rest. bw: the best and the worst. pow, max_min,
    max_random: draws with replacement, weighed by the reward."""
    keep: int | None = Field(default=None, ge=1)
    """Draws for each response pool of the strategies that weigh; null: as many as there are responses."""
    power: float = Field(default=2.0, gt=0)
    """pow: the weight of a response is |reward|^power."""
    rest: float = Field(default=0.4, ge=0, le=1)
    """max_random: the weight of all responses but those with the highest reward, which have 1."""
    scope: Literal["prompt", "batch"] = "prompt"
    """prompt: ranks among the responses to one prompt, as in the paper. batch: among all of the step, as verl does."""

    @model_validator(mode="after")
    def _draws_are_of_weights(self) -> Self:
        if self.strategy in KEPT and self.keep is not None:
            raise ValueError(f"strategy {self.strategy} keeps {KEPT[self.strategy]}; `keep` is for those that draw")
        if self.strategy in KEPT and self.scope == "batch":
            raise ValueError(f"strategy {self.strategy} ranks within a prompt; scope batch is for those that draw")
        return self


def score_rank(batch: Batch, more: Callable[[int], Batch], context: SlotContext, *, config: ScoreRankConfig) -> Batch:
    """Keep responses by the rank of their reward; a response that is drawn twice is learned from twice.

    Reads rewards, not outcomes. Draws depend on seed, step and prompt only. Responses of several turns are refused.
    Metrics: `kept_share`, kept responses of those drawn; `kept_gap`, their mean reward less that of all.

    Source: Shen and Zhang 2024, Policy Filtration for RLHF (arXiv:2409.06957): best of N, best-random, best-worst; the
    weights are those of verl's option pf_ppo, which draws from the whole batch.
    """
    import torch

    from components.tasks.seeds import derive_rng

    batch.require_single("filter score_rank")
    if not batch.num_responses:
        return batch
    rewards = batch.rewards.tolist()
    pools: dict[str, list[int]] = {}
    for row, group in enumerate(batch.group.tolist()):
        pools.setdefault("" if config.scope == "batch" else f"{group}/{batch.prompts[group].item.id}", []).append(row)
    kept: list[int] = []
    for name, rows in pools.items():
        rng = derive_rng(context.seed, "score_rank", context.step, name)
        kept += [rows[at] for at in _chosen([rewards[row] for row in rows], rng, config)]
    found = batch.select(torch.tensor(sorted(kept)))
    context.metrics["kept_share"] = found.num_responses / batch.num_responses
    context.metrics["kept_gap"] = float(found.rewards.double().mean() - batch.rewards.double().mean())
    return found


def _chosen(rewards: list[float], rng: random.Random, config: ScoreRankConfig) -> list[int]:
    """Return the places that are kept of one pool, some of them perhaps more than once."""
    weights = rank_weights(rewards, config.strategy, power=config.power, rest=config.rest)
    places = range(len(rewards))
    if config.strategy not in KEPT:
        return rng.choices(places, weights, k=config.keep or len(rewards))
    if config.strategy != "br" or len(rewards) == 1:
        return [at for at in places if weights[at]]
    best = max(places, key=lambda at: rewards[at])
    return [best, rng.choice([at for at in places if at != best])]
