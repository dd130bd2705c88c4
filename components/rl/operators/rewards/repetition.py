"""A punishment of repeated word sequences."""

from __future__ import annotations

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


def repetition(batch: Batch, context: SlotContext, *, config: RepetitionConfig) -> Tensor:
    """Return [S]: worst * (1 - distinct / all) over the response's sequences of words; 0 with fewer words.

    Source: Yeo et al. 2025, Demystifying Long Chain-of-Thought Reasoning (arXiv:2502.03373), n-gram repetition penalty;
    formula of Open-R1's get_repetition_penalty_reward.
    """
    from components.rl.batch.texts import of_texts

    return of_texts(batch, lambda item, text: config.worst * repeated_share(text, config.words))


def repeated_share(text: str, words: int) -> float:
    """Return 1 - distinct / all over sequences of so many words, without case; 0 for a text with fewer words."""
    found = text.casefold().split()
    sequences = [tuple(found[at : at + words]) for at in range(len(found) - words + 1)]
    return 1 - len(set(sequences)) / len(sequences) if sequences else 0.0
