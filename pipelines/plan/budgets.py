"""Whether a plan's estimate is within its budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from components.runtime.costs.amounts import total
from components.runtime.costs.words import money_text

if TYPE_CHECKING:
    from pipelines.plan.forecast import StageForecast
    from pipelines.recipe.recipe import Recipe


def budget_lines(recipe: Recipe, stages: Sequence[StageForecast]) -> Iterator[str]:
    """Yield how a plan's estimate compares with its recipe's budget; nothing without a budget."""
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
