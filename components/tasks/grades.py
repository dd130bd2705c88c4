"""Which verifiers say right or wrong alone, so that their score is 1 or 0."""

from __future__ import annotations

WITHOUT_GRADES = frozenset(
    {
        "choice",
        "coefficients",
        "countdown",
        "exact",
        "latin_squares",
        "math_verify",
        "numeric",
        "ranks_best",
        "reasoning_gym",
        "regex",
        "solution_sets",
        "unlabelled",
    }
)
"""All others, those of packages and of users' files among them, may give a grade in between."""
