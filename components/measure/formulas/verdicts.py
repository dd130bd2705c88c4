"""How well verdicts on responses agree with their outcomes."""

from __future__ import annotations

from collections.abc import Sequence


def f1(called: Sequence[bool], right: Sequence[bool]) -> float | None:
    """Return 2 TP / (2 TP + FP + FN) of calling responses right; None where none is right or called so."""
    hits = sum(one and other for one, other in zip(called, right, strict=True))
    total = sum(called) + sum(right)
    return 2 * hits / total if total else None
