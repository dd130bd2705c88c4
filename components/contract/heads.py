"""What a model's last layer gives: log-probabilities of tokens, or scores. Tells a policy from a reward model."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any


class Head(StrEnum):
    """What a model can be asked for."""

    LANGUAGE = "language"
    """Tokens: a policy, a teacher, a judge."""
    SCORE = "score"
    """A score of a whole text: sequence classification, as TRL trains reward models."""
    STEPS = "steps"
    """A score of each step: token classification, as TRL trains process reward models."""


LANGUAGE = frozenset({Head.LANGUAGE})
SCORES = frozenset({Head.SCORE, Head.STEPS})
ANY = LANGUAGE | SCORES
WORDS = {
    LANGUAGE: "a language model",
    SCORES: "a reward model",
    frozenset({Head.SCORE}): "a reward model of whole texts",
    frozenset({Head.STEPS}): "a reward model of steps",
}
_CLASSES = {"ForSequenceClassification": Head.SCORE, "ForTokenClassification": Head.STEPS}


def head_of(config: Mapping[str, Any]) -> Head:
    """Return what a model with this config.json gives; one that names no architecture is taken for a policy."""
    names = config.get("architectures")
    for name in names if isinstance(names, list) else ():
        for ending, head in _CLASSES.items():
            if isinstance(name, str) and name.endswith(ending):
                return head
    return Head.LANGUAGE


def in_words(heads: frozenset[Head]) -> str:
    """Return a set of heads for a message."""
    return WORDS.get(heads, "a model" if heads else "nothing (some of its operators want a reward model, others none)")
