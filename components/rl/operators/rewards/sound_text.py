"""Whether a response is text at all: no echo of the prompt, no unbroken string, no character again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class SoundTextConfig(RewardConfig):
    """What counts as degenerate."""

    min_blank: float = Field(default=0.05, ge=0, le=1)
    """Least share of spaces and line breaks among the characters."""
    max_repetition: float = Field(default=300.0, ge=1)
    """Most characters for each different one."""
    echoes: tuple[str, ...] = ("User:", "Assistant:")
    """Texts of the prompt that a response must not hold."""
    short_echoes: tuple[str, ...] = ("reasoning process",)
    """Texts of the prompt that a response of fewer than `short` characters must not hold."""
    short: int = Field(default=90, ge=0)
    """Characters from which on a response may hold a short echo."""


def sound_text(batch: Batch, context: SlotContext, *, config: SoundTextConfig) -> Tensor:
    """Return [S]: 0 for degenerate text, else 1. An empty response is degenerate.

    With `combine: {name: gate, by: [sound_text]}` other rewards count for sound text only.

    Source: Zhang et al. 2025, DeepTheorem (arXiv:2505.23754), released reward function; its bounds are the defaults. It
    also names a sentence of its prompt as an echo.
    """
    from components.rl.batch.texts import of_texts

    return of_texts(batch, lambda item, text: float(is_sound(text, config)))


def is_sound(text: str, config: SoundTextConfig) -> bool:
    """Return whether a text passes all bounds."""
    if not text or any(echo in text for echo in config.echoes):
        return False
    if len(text) < config.short and any(echo in text for echo in config.short_echoes):
        return False
    blank = (text.count(" ") + text.count("\n")) / len(text)
    return blank >= config.min_blank and len(text) / len(set(text)) <= config.max_repetition
