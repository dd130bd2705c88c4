"""Rewards of a person's own: a plain function with TRL's signature, and one with settings and the slot's signature."""

from pydantic import Field
from worth import of_length

from components.rl.configs import RewardConfig


def brevity(completions, prompts, answer, **columns) -> list[float]:
    """The shorter the better, and harder rows are worth more."""
    return [of_length(text) * level for text, level in zip(completions, columns["level"], strict=True)]


class ShortConfig(RewardConfig):
    limit: int = Field(default=10, ge=1)
    """Characters up to which a response is short."""


def short(batch, context, *, config: ShortConfig):
    """Return 1 for every short response."""
    return [len(text) <= config.limit for text in batch.texts]
