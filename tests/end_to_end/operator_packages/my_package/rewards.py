"""Rewards in a package: relative and absolute imports, settings of another module, data of the package."""

from my_package import words

from .scale import worth
from .settings import PoliteConfig


def brevity(completions, prompts, answer, **columns) -> list[float]:
    """The shorter the better."""
    return [worth(text) for text in completions]


def polite(batch, context, *, config: PoliteConfig):
    """Return what the polite words of each response are worth."""
    known = words.polite_words()
    return [config.bonus * sum(word in text for word in known) for text in batch.texts]
