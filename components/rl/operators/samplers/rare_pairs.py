"""Pairs of a hard but solvable prompt and an easy but brittle one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.rl.configs import SlotConfig
from components.rl.curricula.first_rates import profile
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt


class RarePairsConfig(SlotConfig):
    """The two pools, and how they are measured."""

    low: float = Field(default=0.25, gt=0, lt=1)
    """Highest pass rate of a hard prompt; it is solvable if its rate is above 0."""
    high: float = Field(default=0.75, gt=0, lt=1)
    """Lowest pass rate of an easy prompt; it is brittle if its rate is below 1."""
    num_samples: int = Field(default=16, ge=2)
    """M: responses used to measure a prompt before training, if it is not in the ledger."""

    @model_validator(mode="after")
    def _ordered(self) -> RarePairsConfig:
        if self.low >= self.high:
            raise InputError(f"rare_pairs: expected low < high, found {self.low} and {self.high}")
        return self


def rare_pairs(pool: Sequence[Prompt], count: int, context: SlotContext, *, config: RarePairsConfig) -> list[int]:
    """Return `count` indices, alternately hard and easy; each pool is used in shuffled rounds.

    Pass rates are measured before training and not updated. Source: Sheng et al. 2026, Beyond Variance
    (arXiv:2602.03452), positive-negative pairing; thresholds reconstructed. If no prompt lies in a pool's range, the
    prompts with the lowest or highest rate form the pool, and `num_hard` or `num_easy` of the first step is 0.
    """
    if "pools" not in context.memory:
        rates = profile(pool, context, config.num_samples)
        hard = [index for index, rate in enumerate(rates) if 0 < rate <= config.low]
        easy = [index for index, rate in enumerate(rates) if config.high <= rate < 1]
        context.metrics.update(num_hard=float(len(hard)), num_easy=float(len(easy)))
        context.memory.update(pools=[hard or _extreme(rates, min), easy or _extreme(rates, max)], drawn=0)
    pools: list[list[int]] = context.memory["pools"]
    drawn: int = context.memory["drawn"]
    context.memory["drawn"] = drawn + count
    return [_member(pools[place % 2], place // 2, place % 2, context.seed) for place in range(drawn, drawn + count)]


def _extreme(rates: Sequence[float], end: Callable[[Sequence[float]], float]) -> list[int]:
    return [index for index, rate in enumerate(rates) if rate == end(rates)]


def _member(members: Sequence[int], place: int, side: int, seed: int) -> int:
    """Return the member at a position in an endless sequence of shuffled rounds."""
    walk, offset = divmod(place, len(members))
    return random.Random(f"{seed}/rare_pairs/{side}/{walk}").sample(members, len(members))[offset]
