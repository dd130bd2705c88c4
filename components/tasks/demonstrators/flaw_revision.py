"""A reviser of worked sums who mends what a critique names, and leaves the rest as it is written."""

from __future__ import annotations

import random

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.critique_units import units_of
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.sum_flaws import SIGN, SLIP, TERM, Step, steps_of, terms_of
from components.tasks.item import Item
from components.tasks.revised import CRITIQUE, RESPONSE


class FlawRevisionConfig(Params):
    """No settings."""


def flaw_revision(item: Item, rng: random.Random, *, config: FlawRevisionConfig) -> str:
    """Mend `data["response"]` by the flaws that `data["critique"]` names, and carry the new totals through.

    A named term is read again from the expression, a named slip is worked out again, and a named sign is turned; so a
    flaw that is named and not there spoils the step where it is a sign. Flaws that are not named stay.
    """
    found, response, critique = terms_of(item), item.data.get(RESPONSE), item.data.get(CRITIQUE)
    if found is None or not isinstance(response, str) or not isinstance(critique, str):
        raise InputError(
            f"demonstrator flaw_revision: item {item.id} is no chain_sum with a response and a critique "
            f"(data.metadata.expression, data.{RESPONSE}, data.{CRITIQUE})"
        )
    total, due = found
    named, old, steps = set(units_of(critique) or ()), steps_of(response), []
    for at, (sign, number) in enumerate(due):
        step = (old[at] if at < len(old) else None) or Step(total, sign, number, total)
        slip = 0 if f"{at + 1} {SLIP}" in named else step.result - step.true
        if f"{at + 1} {TERM}" in named:
            step = step._replace(number=number)
        if f"{at + 1} {SIGN}" in named:
            step = step._replace(sign="-" if step.sign == "+" else "+")
        step = step._replace(start=total)
        total = step.true + slip
        steps.append(str(step._replace(result=total)))
    return f"{THINK_OPEN}{' '.join(steps)}{ANSWER_OPEN}{total}"
