"""Texts of one request that differ from one another."""

from __future__ import annotations

from collections.abc import Sequence

from components.synthesize.parsing import unusable
from components.synthesize.sifting import REPEATED
from components.synthesize.writers import Text


def distinct(texts: Sequence[Text | None]) -> tuple[list[Text], list[str]]:
    """Return each usable text, the first of equal ones, and why each of the others is dropped."""
    kept: dict[str, Text] = {}
    reasons = []
    for one in texts:
        if (reason := unusable(one)) or one is None:
            reasons.append(reason or "")
        elif one.text in kept:
            reasons.append(REPEATED)
        else:
            kept[one.text] = one
    return list(kept.values()), reasons
