"""Categories of prompts, and weighted draws from them: shared by the bandit samplers."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import Field

from components.contract.errors import InputError
from components.rl.configs import SlotConfig

if TYPE_CHECKING:
    from components.rl.batch.batch import Prompt
    from components.tasks.item import Item


class CategoryConfig(SlotConfig):
    """How prompts are grouped into categories."""

    by: tuple[str, ...] = Field(default=("domain",), min_length=1)
    """Fields that define a category: domain, or a dotted path into the prompt's data such as config.max_terms; several
    give their product."""


def field_of(item: Item, path: str) -> Any:
    """Return the domain, or the value at a dotted path of `item.data`; raise InputError if it is missing."""
    if path == "domain":
        return item.domain
    value: Any = item.data
    for key in path.split("."):
        if not isinstance(value, Mapping) or key not in value:
            raise InputError(f"sampler: prompt {item.id} has no {path!r} in its data")
        value = value[key]
    return value


def members(pool: Sequence[Prompt], by: Sequence[str]) -> dict[str, list[int]]:
    """Return category -> indices into the pool, categories in the order of their names."""
    found: dict[str, list[int]] = {}
    for index, prompt in enumerate(pool):
        found.setdefault("/".join(str(field_of(prompt.item, path)) for path in by), []).append(index)
    return dict(sorted(found.items()))


def softmax(scores: Mapping[str, float], temperature: float) -> dict[str, float]:
    """Return exp(score / temperature), normalised; the highest score is subtracted first to avoid overflow."""
    top = max(scores.values())
    raised = {name: math.exp((score - top) / temperature) for name, score in scores.items()}
    total = sum(raised.values())
    return {name: value / total for name, value in raised.items()}


def draw(
    categories: Mapping[str, Sequence[int]], weights: Mapping[str, float], count: int, rng: random.Random
) -> list[int]:
    """Draw a category by weight for every prompt, then one of its prompts; none repeats before all are used."""
    chosen = rng.choices(list(categories), weights=[weights[name] for name in categories], k=count)
    left: dict[str, list[int]] = {}
    picked = []
    for name in chosen:
        if not left.get(name):
            left[name] = rng.sample(categories[name], len(categories[name]))
        picked.append(left[name].pop())
    return picked
