"""Forward passes of near equal size for ranks that work in rounds: a round takes as long as its largest pass."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from components.modeling.packing.batching import micro_batches


def rank_batches(costs: Sequence[int], max_tokens: int, ranks: int) -> list[list[int]]:
    """Cut sequences of the given costs into passes of at most `max_tokens` for `ranks` processes; return their indices.

    One process takes them by length, as `micro_batches` does. Several take the fewest rounds of one pass each, filled
    as evenly as the costs allow (longest processing time first: Graham 1969, doi:10.1137/0117039), largest first, so
    that the passes of a round are alike and the last one is the cheapest to repeat. There are fewer than a multiple of
    `ranks` only where there are too few sequences. A sequence above `max_tokens` gets its own pass.
    """
    if ranks == 1:
        return list(micro_batches(costs, max_tokens))
    rounds = max(1, -(-sum(costs) // (max_tokens * ranks)))
    while (bins := _even_bins(costs, max_tokens, rounds * ranks)) is None:
        rounds += 1
    return bins


def rounds_cost(costs: Sequence[int], ranks: int) -> int:
    """Return what rounds of passes of the given costs take, in tokens of the slowest rank.

    A rank without a pass in the last round repeats the last pass, as `Ranks.rounds` has it do.
    """
    return sum(max(costs[start : start + ranks]) for start in range(0, len(costs), ranks))


def _even_bins(costs: Sequence[int], max_tokens: int, count: int) -> list[list[int]] | None:
    """Return at most `count` bins, largest first, or None where one would need more than `max_tokens`."""
    totals = [(0, number) for number in range(min(count, len(costs)))]
    members: list[list[int]] = [[] for _ in totals]
    for index in sorted(range(len(costs)), key=lambda index: (-costs[index], index)):
        total, number = totals[0]
        if members[number] and total + costs[index] > max_tokens:
            return None
        members[number].append(index)
        heapq.heapreplace(totals, (total + costs[index], number))
    return [members[number] for _, number in sorted(totals, key=lambda entry: (-entry[0], entry[1]))]
