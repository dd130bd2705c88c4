"""Questions with placeholders, filled in one pass: text that holds a placeholder itself stays text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from components.contract.errors import InputError

PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


def filled(question: str, texts: Mapping[str, str]) -> str:
    """Return a question with its placeholders replaced."""
    return PLACEHOLDER.sub(lambda found: texts.get(found[1], found[0]), question)


def check_question(
    owner: str, question: str, known: Collection[str], *, needs: Collection[str] = (), what: str = "question"
) -> str:
    """Return a question; raise InputError for a placeholder that nothing fills, or for one of `needs` that is missing.

    `owner` begins the message, `what` is how it calls the text.
    """
    named = set(PLACEHOLDER.findall(question))
    if missing := [name for name in needs if name not in named]:
        raise InputError(f"{owner}: the {what} lacks {{{missing[0]}}}")
    if strange := sorted(named - set(known)):
        there = ", ".join(f"{{{name}}}" for name in known)
        raise InputError(f"{owner}: nothing fills {{{strange[0]}}} of the {what}; there are {there}")
    return question
