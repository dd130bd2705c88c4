"""Arms without a part that changes the cost: their steps are scaled until they spend what the baseline spends.

Without dynamic sampling a step of DAPO draws a fraction of the tokens, so at equal steps its arm would lose for having
seen less. Steps are matched at the seeds of the first look by what arms spend; effects are not looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from components.rl.params import RLParams
from pipelines.methods.reproduce import BUDGET_TOLERANCE, Finding, Reproduction
from pipelines.recipe.hallmark import ARM
from pipelines.recipe.hallmark_words import BASELINE
from pipelines.recipe.layers import override_text
from pipelines.recipe.recipe import Recipe

MAX_ROUNDS = 4
"""Runs in which steps are matched: what a step draws may change over a run, so one division may not do."""


def steps_of(recipe: Recipe) -> dict[str, int]:
    """Return arm -> steps of its `rl` stages; arms whose stages have phases, or that have none, are left out."""
    found: dict[str, int] = {}
    for stage in recipe.stages:
        if isinstance(stage.config, RLParams) and ARM in stage.labels and not stage.config.phases:
            found[str(stage.labels[ARM])] = stage.config.steps
    return found


def step_overrides(steps: Mapping[str, int]) -> list[str]:
    """Return the overrides that give arms these steps."""
    return [override_text(f"matrix.{ARM}.{arm}.steps", count) for arm, count in steps.items()]


def share_spent(budget: Finding, arm: str) -> float:
    """Return an arm's mean budget as a share of the baseline's."""
    return math.fsum(budget.arms[arm]) / math.fsum(budget.arms[BASELINE])


def is_alike(share: float) -> bool:
    """Return whether a share of the baseline's budget lies within the tolerance on either side."""
    return max(share, 1 / share) <= 1 + BUDGET_TOLERANCE if share > 0 else False


def match_steps(steps: Mapping[str, int], run_with: Callable[[Mapping[str, int]], Reproduction]) -> dict[str, int]:
    """Return arm -> steps at which it spends what the baseline does, of the arms in `steps` that spend otherwise.

    `run_with` runs all arms, some with other steps, and measures them. An arm that no number of steps brings within
    the tolerance keeps the nearest one tried. Empty for a recipe without `budget`.
    """
    tried: dict[str, dict[int, float]] = {arm: {} for arm in steps}
    now, changed = dict(steps), dict[str, int]()
    for _ in range(MAX_ROUNDS):
        budget = run_with(changed).budget
        if budget is None:
            return {}
        for arm in steps:
            tried[arm][now[arm]] = share_spent(budget, arm)
        following = {arm: _next(now[arm], tried[arm]) for arm in steps}
        if following == now:
            break
        now = following
        changed = {arm: count for arm, count in now.items() if count != steps[arm]}
    best = {
        arm: min(shares, key=lambda count: abs(math.log(shares[count] or math.inf))) for arm, shares in tried.items()
    }
    return {arm: count for arm, count in best.items() if count != steps[arm]}


def _distance(share: float) -> float:
    return abs(math.log(share)) if share > 0 else math.inf


def _next(count: int, shares: Mapping[int, float]) -> int:
    """Return the steps to try after `count`: the same if they fit, or if the better ones have been tried.

    In proportion at first; between too few and too many by the power of the steps that the cost follows there.
    """
    share = shares[count]
    if is_alike(share) or share <= 0:
        return count
    few = max((tried for tried in shares if 0 < shares[tried] < 1), default=None)
    many = min((tried for tried in shares if shares[tried] > 1), default=None)
    wanted = round(count / share)
    if few is not None and many is not None and few < many:
        power = math.log(shares[many] / shares[few]) / math.log(many / few)
        wanted = round(few * shares[few] ** (-1 / power))
    wanted = max(1, wanted)
    return count if wanted in shares else wanted
