"""What a generator may read beside its items and writers."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from components.measure.ledger import PassRateRow
from components.modeling.serving.models import Drawing
from components.synthesize.config import GeneratorConfig
from components.tasks.item import Item
from components.tasks.seeds import derive_rng, derive_seed


@dataclass(frozen=True)
class Recorded:
    """A response that an earlier stage drew to an item."""

    response: str
    right: bool


@dataclass(frozen=True)
class GeneratorContext:
    """One chunk's seed and size, and what the stage's other inputs hold."""

    seed: int
    """Of this chunk in this round: all that a generator draws follows from it."""
    count: int
    """Rows to attempt where they are not made from items."""
    pool: Sequence[Item] = ()
    """All items of the stage, for generators that combine several."""
    rollouts: Mapping[str, Sequence[Recorded]] = field(default_factory=dict)
    """Item id -> its recorded responses."""
    ledger: Mapping[str, PassRateRow] = field(default_factory=dict)
    """Item id -> how often a model solved it."""

    def drawing(self, config: GeneratorConfig, purpose: str, *, num_samples: int | None = None) -> Drawing:
        """Return how texts for one purpose are drawn; another purpose has other random numbers."""
        return Drawing(
            num_samples=num_samples or config.num_samples,
            max_new_tokens=config.max_new_tokens,
            temperature=config.temperature,
            seed=derive_seed(self.seed, purpose),
        )

    def rng(self, *labels: str | int) -> random.Random:
        """Return a generator of random numbers for one purpose."""
        return derive_rng(self.seed, *labels)
