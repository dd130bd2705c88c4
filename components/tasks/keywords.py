"""Keywords in a text: which occur, in which order, and how well that agrees with a reference."""

from __future__ import annotations

import re
from collections.abc import Sequence


def keyword_hits(text: str, keywords: Sequence[str]) -> list[str]:
    """Return the keywords that a text contains, in order of occurrence, each as often as it occurs.

    Whole words only, upper and lower case alike; where two keywords begin at one place the longer one counts.
    """
    if not keywords:
        return []
    longest_first = sorted({keyword.casefold() for keyword in keywords}, key=lambda keyword: (-len(keyword), keyword))
    pattern = "|".join(map(re.escape, longest_first))
    return re.findall(rf"(?<!\w)(?:{pattern})(?!\w)", text.casefold())


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """Return the length of the longest sequence that both contain in order; time is the product of the lengths."""
    row = [0] * (len(second) + 1)
    for one in first:
        diagonal = 0
        for place, other in enumerate(second, start=1):
            above = row[place]
            row[place] = diagonal + 1 if one == other else max(above, row[place - 1])
            diagonal = above
    return row[-1]


def ordered_coverage(given: Sequence[str], expected: Sequence[str]) -> float:
    """Return how well the hits of a text agree with those of a reference, in [0, 1].

    The longest common subsequence over the longer of both, so that repeated keywords cost as much as missing ones.
    Source: RLVRR, content reward (YJiangcm/RLVRR): LCS(hits, reference hits) / max of their lengths.
    """
    longer = max(len(given), len(expected))
    return longest_common_subsequence(given, expected) / longer if longer else 0.0
