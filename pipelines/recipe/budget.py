"""The key `budget`: how much money a recipe's run may spend, such as 40 EUR."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from components.contract.job import Budget
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems, shown
from pipelines.recipe.pools import Pool

BUDGET = "budget"
WORDS = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?([A-Z]{3})?")


def read_budget(root: Node, pools: Mapping[str, Pool], used: Iterable[str], problems: Problems) -> Budget | None:
    """Return what a recipe's run may spend; None without a bound, or if a problem of it was noted.

    `used` are the pools of its stages: each needs a price in the budget's currency.
    """
    node = root.child(BUDGET)
    if node is None or node.value is None:
        return None
    found = WORDS.fullmatch(str(node.value).strip())
    if isinstance(node.value, bool) or found is None or float(found[1]) <= 0:
        problems.add(node.mark, f"{BUDGET}: got {shown(node.value)}, expected an amount above 0, such as 40 EUR")
        return None
    budget = Budget(amount=float(found[1]), currency=found[2] or "")
    for name in sorted({*used} & {*pools}):
        rate = pools[name].rate(name)
        if rate.price_per_hour is None:
            problems.add(
                node.mark, f"{BUDGET}: pool {name!r} has no price_per_hour in the pools file: nothing bounds it"
            )
        elif rate.currency != budget.currency:
            have = rate.currency or "no currency"
            problems.add(node.mark, f"{BUDGET}: it is in {budget.currency or 'no currency'}, pool {name!r} in {have}")
    return budget
