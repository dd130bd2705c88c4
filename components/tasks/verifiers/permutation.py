"""Steps put in order: how near an order is to the right one."""

from __future__ import annotations

from itertools import combinations
from typing import Literal

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong


class PermutationConfig(Params):
    """What counts as near."""

    distance: Literal["misplaced", "inversions"] = "misplaced"
    """Steps at another place, or pairs of steps the wrong way round."""


def permutation(item: Item, response: str, *, config: PermutationConfig) -> Verdict:
    """Judge an order of letters such as `bac`, with or without commas between; the score is 1 - d / d_max.

    An answer that is no permutation of the item's letters is WRONG with score 0.
    Source: MR-RLVR, the reordering task (the distance is reconstructed; misplaced positions come first in its text).
    """
    right = item.answer
    if not right or len(set(right)) < len(right):
        raise BrokenItem(f"the reference {right!r:.80} is no order")
    given = "".join(extract_answer(response).replace(",", " ").split()).lower()
    if sorted(given) != sorted(right):
        return wrong(f"no order of {''.join(sorted(right))}: {given[:80]!r}", graded=0.0)
    if given == right:
        return RIGHT
    return wrong(f"ordered {given}", graded=1.0 - _distance(given, right, config))


def _distance(given: str, right: str, config: PermutationConfig) -> float:
    if config.distance == "misplaced":
        return sum(one != other for one, other in zip(given, right, strict=True)) / len(right)
    pairs = list(combinations(right, 2))
    return sum(given.index(first) > given.index(second) for first, second in pairs) / len(pairs)
