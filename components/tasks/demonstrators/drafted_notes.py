"""Notes behind a thought: the points once, then the note."""

from __future__ import annotations

import random

from pydantic import Field

from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.demonstrators.notes import NotesDemonstratorConfig, notes
from components.tasks.item import Item


class DraftedNotesConfig(NotesDemonstratorConfig):
    """As notes, and how often there is a thought."""

    thought: float = Field(default=1.0, ge=0, le=1)
    """Probability that a thought precedes the note."""


def drafted_notes(item: Item, rng: random.Random, *, config: DraftedNotesConfig) -> str:
    """Write `<think>b7 k2<answer>b7 then k2.`: the points as they are, then what demonstrator notes writes."""
    thought = rng.random() < config.thought
    note = notes(item, rng, config=config)
    return f"{THINK_OPEN}{' '.join(item.data['points'])}{note}" if thought else note
