"""Candidates that are shown by their marks, and hidden rules of what a kind of question wants of them.

A kind (`g`) wants two criteria (`ab`: a most, then b); which ones, a hash decides. A candidate `3827` has the marks
3, 8, 2 and 7 under criteria a, b, c and d, and its worth under `ab` is 2 * 3 + 8 = 14, on the scale of marks 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

from components.tasks.seeds import derive_rng

CRITERIA = "abcdef"
KINDS = "ghjkmnpqrstvwxyz"
"""Kinds of questions; no letter is also a criterion."""
WEIGHTS = (2, 1)
"""Of the first and of the second criterion of a rule."""
LOWEST, HIGHEST = 1, 9
"""Marks, and scores."""


def rules_of(criteria: int) -> list[str]:
    """Return all rules of so many criteria: two different ones, the weightier first."""
    return ["".join(rule) for rule in permutations(CRITERIA[:criteria], len(WEIGHTS))]


def rule_of(kind: str, criteria: int) -> str:
    """Return what a kind of question wants; it does not depend on seeds, and differs for as many kinds as it can."""
    rules = rules_of(criteria)
    derive_rng(0, "rules", criteria).shuffle(rules)
    return rules[KINDS.index(kind) % len(rules)]


def marks_under(candidate: str, rule: str) -> list[int]:
    """Return a candidate's marks under the criteria of a rule."""
    return [int(candidate[CRITERIA.index(criterion)]) for criterion in rule]


def worth(marks: Sequence[int]) -> int:
    """Return the weighted sum of marks under the criteria of a rule."""
    return sum(weight * mark for weight, mark in zip(WEIGHTS, marks, strict=True))


def score_of(marks: Sequence[int]) -> int:
    """Return their worth on the scale of marks, rounded: candidates whose worth differs by 3 differ in score."""
    total = sum(WEIGHTS)
    return (2 * worth(marks) + total) // (2 * total)
