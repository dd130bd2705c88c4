"""Whether a plan's estimate is within its budget, and on which pools its stages would cost less."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from components.runtime.costs.amounts import total
from components.runtime.costs.words import money_text

if TYPE_CHECKING:
    from components.contract.job import Budget
    from pipelines.plan.forecast import StageForecast
    from pipelines.recipe.pools import Pool
    from pipelines.recipe.recipe import Recipe


def budget_lines(recipe: Recipe, stages: Sequence[StageForecast]) -> Iterator[str]:
    """Yield how a plan's estimate compares with its recipe's budget, and cheaper pools; nothing without a budget."""
    budget = recipe.budget
    if budget is None:
        return
    amounts = [stage.amount for stage in stages]
    known = total(amount for amount in amounts if amount is not None)
    estimate = known.prices.get(budget.currency, 0.0)
    lower = ", and more for stages without a basis" if None in amounts else ""
    verdict = "over it: the run would end at a step's border" if estimate > budget.amount else "within it"
    money = money_text(known) or f"0.00 {budget.currency}".rstrip()
    yield f"budget: {budget}; the estimate is {money}{lower}, {verdict}"
    for stage in stages:
        for name, share in cheaper_pools(recipe, stage, budget):
            yield (
                f"budget: {stage.job.stage} would cost {share:.0%} of that on pool {name}, at the same speed: "
                f"--set stages.{stage.job.stage}.pool={name}"
            )


def cheaper_pools(recipe: Recipe, stage: StageForecast, budget: Budget) -> list[tuple[str, float]]:
    """Return (pool, its price as a share of that of the stage's pool) of like pools that cost less, the cheapest first.

    Like pools do the same work at the same speed: as many nodes and GPUs of the same kind, cores, threads and backends.
    """
    if stage.outlook.value != "run":
        return []
    own = stage.pool
    price = own.rate(stage.job.resources.pool).price_per_hour or 0.0
    found = []
    for name, pool in recipe.pools.items():
        rate = pool.rate(name)
        if rate.price_per_hour is None or rate.currency != budget.currency or not _alike(own, pool):
            continue
        if rate.price_per_hour < price:
            found.append((name, rate.price_per_hour / price))
    return sorted(found, key=lambda one: one[1])


def _alike(one: Pool, other: Pool) -> bool:
    same = ("nodes", "gpus", "gpu_type", "gpu_memory_gib", "cpus", "threads")
    return all(getattr(one, name) == getattr(other, name) for name in same) and one.backends() == other.backends()
