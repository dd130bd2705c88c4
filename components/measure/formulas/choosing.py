"""Expected accuracy of choosing among k of n samples: the best by a score, a vote with weights, and sums of scores.

Expectations are over all draws of k from n without replacement, as for pass@k, so that there is no noise of a draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, groupby
from random import Random


def best_of(scores: Sequence[float], right: Sequence[bool], ks: Sequence[int]) -> list[float]:
    """Return for each k the chance that the sample with the highest score among k of n is right; NaN where k > n.

    Of tied samples any is taken, with equal chances. The best of a draw lies in a tie of m samples below b better ones
    in C(n - b, k) - C(n - b - m, k) of C(n, k) draws.
    """
    order = sorted(range(len(scores)), key=lambda row: -scores[row])
    found = [0.0] * len(ks)
    better, total = 0, len(scores)
    for _, tied in groupby(order, key=lambda row: scores[row]):
        rows = list(tied)
        share = sum(right[row] for row in rows) / len(rows)
        for place, k in enumerate(ks):
            if k <= total:
                draws = math.comb(total - better, k) - math.comb(total - better - len(rows), k)
                found[place] += share * draws / math.comb(total, k)
        better += len(rows)
    return [value if k <= total else math.nan for value, k in zip(found, ks, strict=True)]


def weighted_vote_at(
    answers: Sequence[str | None],
    right: Sequence[bool],
    weights: Sequence[float],
    ks: Sequence[int],
    *,
    subsets: int,
    seed: int,
) -> list[float]:
    """Return for each k the mean accuracy of votes over draws of k from n; NaN where k > n.

    All draws are counted when there are at most `subsets`, else that many are drawn under `seed`. An answer has the sum
    of its samples' weights; None abstains. Of tied answers any is taken; a draw in which nothing has weight scores 0.
    """
    truth = _rightness(answers, right)
    return _over_draws(len(answers), ks, lambda rows: _vote(answers, truth, weights, rows), subsets, seed)


def score_vote_at(
    votes: Sequence[Sequence[int] | None],
    is_right: Callable[[Sequence[int]], bool],
    ks: Sequence[int],
    *,
    worth: Sequence[float | None] | None,
    kept: float,
    subsets: int,
    seed: int,
) -> list[float]:
    """Return for each k how often sums of scores over draws of k from n are right; NaN where k > n.

    A vote has a score for each candidate; None abstains. With `worth`, the share `kept` of k votes that are worth most
    is summed, at least one and of equal ones the earlier; without it all are. Draws are counted as in
    `weighted_vote_at`; one in which nobody votes is wrong.
    """
    order = list(range(len(votes)))
    if worth is not None:
        order.sort(key=lambda row: math.inf if (value := worth[row]) is None else -value)
    ranks = [0] * len(votes)
    for rank, row in enumerate(order):
        ranks[row] = rank

    def value(rows: Sequence[int]) -> float:
        most = len(rows) if worth is None else max(1, math.floor(len(rows) * kept))
        return _sums_are_right(votes, is_right, rows, ranks, most)

    return _over_draws(len(votes), ks, value, subsets, seed)


def _sums_are_right(
    votes: Sequence[Sequence[int] | None],
    is_right: Callable[[Sequence[int]], bool],
    rows: Sequence[int],
    ranks: Sequence[int],
    most: int,
) -> bool:
    """Return whether the sums of the first `most` votes by rank among these rows are right."""
    voting = sorted((row for row in rows if votes[row] is not None), key=ranks.__getitem__)[:most]
    given = [vote for row in voting if (vote := votes[row]) is not None]
    return bool(given) and is_right([sum(scores) for scores in zip(*given, strict=True)])


def _over_draws(
    total: int, ks: Sequence[int], value: Callable[[Sequence[int]], float], subsets: int, seed: int
) -> list[float]:
    """Return for each k the mean of `value` over draws of k rows; NaN where k > total."""
    found = []
    for k in ks:
        values = [value(rows) for rows in _draws(total, k, subsets, seed)] if k <= total else [math.nan]
        found.append(math.fsum(values) / len(values))
    return found


def _rightness(answers: Sequence[str | None], right: Sequence[bool]) -> dict[str, float]:
    """Return answer -> the share of its samples that were judged right."""
    judged: dict[str, list[bool]] = {}
    for answer, is_right in zip(answers, right, strict=True):
        if answer is not None:
            judged.setdefault(answer, []).append(is_right)
    return {answer: sum(found) / len(found) for answer, found in judged.items()}


def _draws(total: int, k: int, subsets: int, seed: int) -> Iterator[Sequence[int]]:
    if math.comb(total, k) <= subsets:
        yield from combinations(range(total), k)
        return
    generator = Random(f"{seed}/{total}/{k}")
    for _ in range(subsets):
        yield sorted(generator.sample(range(total), k))  # sums of weights do not depend on the order of the draw


def _vote(
    answers: Sequence[str | None], truth: dict[str, float], weights: Sequence[float], rows: Sequence[int]
) -> float:
    votes: dict[str, float] = {}
    for row in rows:
        answer = answers[row]
        if answer is not None:
            votes[answer] = votes.get(answer, 0.0) + weights[row]
    most = max(votes.values(), default=0.0)
    if most <= 0:
        return 0.0
    tied = [answer for answer, vote in votes.items() if vote >= most * (1 - 1e-12)]
    return sum(truth[answer] for answer in tied) / len(tied)
