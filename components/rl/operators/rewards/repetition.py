"""A punishment of repeated word sequences."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class RepetitionConfig(RewardConfig):
    """How long the sequences are, and what the worst response gets."""

    words: int = Field(default=3, ge=1)
    """Words of a sequence."""
    worst: float = Field(default=-1.0, le=0)
    """Reward of a response that repeats one sequence only, in the limit."""
    times: int | None = Field(default=None, ge=2)
    """Occurrences of one sequence from which on a response gets `worst`, and below which 0; none: the share counts."""


def repetition(batch: Batch, context: SlotContext, *, config: RepetitionConfig) -> Tensor:
    """Return [S]: worst * (1 - distinct / all) over the response's sequences of words; 0 with fewer words.

    With `times`: `worst` where one sequence occurs so often, else 0, as in RLPR's released code.
    Source: Yeo et al. 2025, Demystifying Long Chain-of-Thought Reasoning (arXiv:2502.03373), n-gram repetition penalty;
    formula of Open-R1's get_repetition_penalty_reward.
    """
    from components.rl.batch.texts import of_texts

    def grade(text: str) -> float:
        found = sequences(text, config.words)
        if config.times is None:
            return config.worst * (1 - len(found) / found.total() if found else 0.0)
        return config.worst if found and max(found.values()) >= config.times else 0.0

    return of_texts(batch, lambda item, text: grade(text))


def sequences(text: str, words: int) -> Counter[tuple[str, ...]]:
    """Return how often each sequence of so many words occurs, without case; none for a text with fewer words."""
    found = text.casefold().split()
    return Counter(tuple(found[at : at + words]) for at in range(len(found) - words + 1))
