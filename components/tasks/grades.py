"""Which verifiers say right or wrong alone, so that their score is 1 or 0."""

from __future__ import annotations

WITHOUT_GRADES = frozenset({"choice", "exact", "math_verify", "numeric", "reasoning_gym", "regex", "unlabelled"})
"""All others, those of packages and of users' files among them, may give a grade in between."""
