"""On which pools the stages of a plan cost less: pools that do the same work, or were measured at it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pipelines.plan.history import History

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.plan.forecast import StageForecast
    from pipelines.recipe.pools import Pool
    from pipelines.recipe.recipe import Recipe


@dataclass(frozen=True)
class Offer:
    """A pool on which a stage costs less."""

    stage: str
    """Its name in the recipe, which the cells of a matrix share."""
    pool: str
    share: float
    """Of what the stage costs on its own pool."""
    measured: bool
    """Whether the stage ran there, on another kind of pool, so that its speed is known; else the speed is the same."""

    @property
    def override(self) -> str:
        """Return what chooses the pool, for --set."""
        return f"stages.{self.stage}.pool={self.pool}"

    @property
    def words(self) -> str:
        """Return the offer in words."""
        basis = "as measured" if self.measured else "at the same speed"
        return f"{self.stage} costs {self.share:.0%} of that on pool {self.pool}, {basis}"


def offers(recipe: Recipe, store: Store, stages: Sequence[StageForecast], *, same_work: bool = False) -> list[Offer]:
    """Return pools that cost less for the stages that will run, in the order of the plan, the cheapest first of each.

    A pool does the same work at the same speed if it has as many nodes and GPUs of the same kind, cores, threads and
    the same backends. Unless only such are wanted (`same_work`), others count, too, where a run of this recipe has
    measured the stage there and on its own pool, with the same parameters. Prices in other currencies are left out.
    """
    history = History(store, recipe.name)
    return [
        offer
        for stage in stages
        if stage.outlook.value == "run"
        for offer in sorted(_of_stage(recipe, stage, history, same_work), key=lambda one: one.share)
    ]


def cheapest(recipe: Recipe, store: Store, stages: Sequence[StageForecast], *, same_work: bool = False) -> list[Offer]:
    """Return the best offer of each stage that has one."""
    best: dict[str, Offer] = {}
    for offer in offers(recipe, store, stages, same_work=same_work):
        best.setdefault(offer.stage, offer)
    return list(best.values())


def _of_stage(recipe: Recipe, stage: StageForecast, history: History, same_work: bool) -> list[Offer]:
    own_name, name_in_recipe = stage.job.resources.pool, stage.job.group or stage.job.stage
    if "." in name_in_recipe:  # of a group that repeats: its rounds are to be on one pool
        return []
    own = stage.pool.rate(own_name)
    if not own.price_per_hour:
        return []
    measured = {} if same_work else history.seconds_by_pool(stage.job.stage, stage.job.params)
    found = []
    for name, pool in recipe.pools.items():
        rate = pool.rate(name)
        if name == own_name or rate.price_per_hour is None or rate.currency != own.currency:
            continue
        alike = _alike(stage.pool, pool)
        if not alike and not (name in measured and measured.get(own_name)):
            continue
        speed = 1.0 if alike else measured[name] / measured[own_name]
        share = rate.price_per_hour / own.price_per_hour * speed
        if share < 1:
            found.append(Offer(name_in_recipe, name, share, not alike))
    return found


def _alike(one: Pool, other: Pool) -> bool:
    same = ("nodes", "gpus", "gpu_type", "gpu_memory_gib", "cpus", "threads", "fabric")
    alike = all(getattr(one, name) == getattr(other, name) for name in same) and one.backends() == other.backends()
    return alike and (other.memory_gib or 0) >= (one.memory_gib or 0)
