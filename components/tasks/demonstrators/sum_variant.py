"""Another sum with the same total, in the words of the first: how a problem is varied without changing its answer."""

from __future__ import annotations

import random
from collections.abc import Sequence

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.demonstrators.chain_sum_trace import EXPRESSION
from components.tasks.item import Item

MAX_SHUFFLES = 20


class SumVariantConfig(Params):
    """How a sum is varied, and how careful the writer is."""

    split_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a term is written as two, 7 as 3 + 4, beside the new order of the terms."""
    error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that the new sum has another total: one of its terms is off by one."""


def sum_variant(item: Item, rng: random.Random, *, config: SumVariantConfig) -> str:
    """Write the prompt of a chain_sum with its terms in another order: 4 + 7 - 3 becomes 7 - 3 + 4.

    A positive term comes first where there is one. Where no order differs, a term is split, so that the text always
    does. After Liang et al. 2025 (SvS): a variational problem has another description and the same answer.
    """
    metadata = item.data.get("metadata")
    expression = metadata.get("expression") if isinstance(metadata, dict) else None
    if not isinstance(expression, str) or not EXPRESSION.fullmatch(expression) or expression not in item.prompt:
        raise InputError(f"demonstrator sum_variant: item {item.id} is no chain_sum (expression: {expression!r:.80})")
    terms = _terms(expression)
    varied = _split(terms, rng) if rng.random() < config.split_rate else list(terms)
    for _ in range(MAX_SHUFFLES):
        rng.shuffle(varied)
        if _expression(varied) != expression:
            break
    else:
        varied = _split(terms, rng)
    if rng.random() < config.error_rate:
        varied[rng.randrange(len(varied))] += rng.choice((-1, 1))
    return item.prompt.replace(expression, _expression(varied))


def _terms(expression: str) -> list[int]:
    """Return the terms with their signs."""
    parts = expression.split(" ")
    signed = [int(parts[0])]
    for sign, number in zip(parts[1::2], parts[2::2], strict=True):
        signed.append(int(number) if sign == "+" else -int(number))
    return signed


def _split(terms: Sequence[int], rng: random.Random) -> list[int]:
    """Return the terms with one of them written as two, of its sign where it is at least 2."""
    at = rng.randrange(len(terms))
    size = abs(terms[at])
    part = rng.randint(1, size - 1) if size > 1 else 1
    part = part if terms[at] >= 0 else -part
    return [*terms[:at], part, terms[at] - part, *terms[at + 1 :]]


def _expression(terms: Sequence[int]) -> str:
    first = next((at for at, term in enumerate(terms) if term > 0), 0)
    ordered = [terms[first], *terms[:first], *terms[first + 1 :]]
    return str(ordered[0]) + "".join(f" {'+' if term >= 0 else '-'} {abs(term)}" for term in ordered[1:])
