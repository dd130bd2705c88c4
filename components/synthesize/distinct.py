"""Texts and judged responses of one request that differ from one another."""

from __future__ import annotations

from collections.abc import Sequence

from components.synthesize.parsing import unusable
from components.synthesize.sifting import OVER_CAP, REPEATED, Judged
from components.synthesize.writers import Text


def distinct(texts: Sequence[Text | None], most: int | None = None) -> tuple[list[Text], list[str]]:
    """Return each usable text, the first of equal ones and the first `most`, and why each of the others is dropped."""
    kept: dict[str, Text] = {}
    reasons = []
    for one in texts:
        if (reason := unusable(one)) or one is None:
            reasons.append(reason or "")
        elif one.text in kept:
            reasons.append(REPEATED)
        elif len(kept) == most:
            reasons.append(OVER_CAP)
        else:
            kept[one.text] = one
    return list(kept.values()), reasons


def distinct_judged(found: Sequence[Judged]) -> tuple[list[Judged], list[str]]:
    """Return each response with a verdict, the first of equal ones, and why each of the others is dropped."""
    kept: dict[str, Judged] = {}
    reasons = []
    for one in found:
        if one.verdict is None or one.verdict.failed:
            reasons.append(one.dropped or "")
        elif one.text in kept or not one.text.strip():
            reasons.append(REPEATED)
        else:
            kept[one.text] = one
    return list(kept.values()), reasons
