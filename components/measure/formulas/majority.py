"""maj@k: the chance that the most frequent of k answers is right, exact over all draws of k from n.

Self-consistency (Wang et al. 2022) votes among k samples. Its expectation over the k-subsets of n samples is
computed exactly by dynamic programming, so that there is no subsampling noise.

Tie rule: a tied vote is settled at random among the tied answers, so it scores their mean. In expectation over draws
this equals the common rule "the answer that was seen first".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from components.contract.errors import InputError
from components.measure.intervals import Floats

MAX_EXACT_SAMPLES = 1000
"""Binomial coefficients of more samples than this pass the range of float64."""

Class = tuple[int, float]
"""Votes for one answer, and how right it is (the share of its samples that were verified right)."""


def vote_classes(answers: Sequence[str | None], right: Sequence[bool]) -> tuple[tuple[Class, ...], int]:
    """Group verified samples by answer; return the classes, sorted, and the number of abstentions (None)."""
    votes: dict[str, list[bool]] = {}
    for answer, is_right in zip(answers, right, strict=True):
        if answer is not None:
            votes.setdefault(answer, []).append(is_right)
    classes = tuple(sorted((len(found), sum(found) / len(found)) for found in votes.values()))
    return classes, sum(answer is None for answer in answers)


def maj_at_k(answers: Sequence[str | None], right: Sequence[bool], k: int) -> float:
    """Return maj@k of one prompt from its verified samples' answers; None abstains (no answer was given).

    A draw in which all abstain scores 0. Raises InputError unless 1 <= k <= samples <= 1000.
    """
    if not 1 <= k <= len(answers):
        raise InputError(f"maj@{k} cannot be estimated from {len(answers)} samples; k is from 1 to the samples drawn")
    return float(maj_at_k_values(answers, right, [k])[0])


def maj_at_k_values(answers: Sequence[str | None], right: Sequence[bool], ks: Sequence[int]) -> Floats:
    """Return [K] maj@k of one prompt; NaN where k exceeds its samples."""
    classes, abstentions = vote_classes(answers, right)
    chances = _majority_chances(classes, abstentions)
    return np.array([chances[k - 1] if 1 <= k <= len(chances) else math.nan for k in ks])


@cache
def _majority_chances(classes: tuple[Class, ...], abstentions: int) -> tuple[float, ...]:
    """Return maj@k for k = 1..n. Prompts share few vote patterns, hence the cache."""
    total = sum(votes for votes, _ in classes) + abstentions
    if total > MAX_EXACT_SAMPLES:
        raise InputError(f"maj@k is exact up to {MAX_EXACT_SAMPLES} samples per prompt, not {total}")
    if not classes:
        return (0.0,) * total
    scores = sum(_score_at_height(classes, abstentions, height) for height in range(1, classes[-1][0] + 1))
    draws = np.array([float(math.comb(total, k)) for k in range(total + 1)])
    return tuple((np.asarray(scores) / draws)[1:].tolist())


def _score_at_height(classes: tuple[Class, ...], abstentions: int, height: int) -> Floats:
    """Return [n + 1]: by number drawn, the summed score of all draws whose winners have exactly `height` votes.

    `ways[u, t]` counts draws of u samples from the classes so far in which t classes have `height` votes and none has
    more; `worth[u, t]` sums over them how right those t classes are. A draw's score is its worth / t.
    """
    total = sum(votes for votes, _ in classes) + abstentions
    ways = np.zeros((total + 1, total // height + 2))
    ways[0, 0] = 1.0
    worth = np.zeros_like(ways)
    for votes, rightness in classes:
        next_ways, next_worth = np.zeros_like(ways), np.zeros_like(worth)
        for drawn in range(min(votes, height) + 1):
            factor, end = float(math.comb(votes, drawn)), total + 1 - drawn
            if drawn < height:
                next_ways[drawn:] += factor * ways[:end]
                next_worth[drawn:] += factor * worth[:end]
            else:
                next_ways[drawn:, 1:] += factor * ways[:end, :-1]
                next_worth[drawn:, 1:] += factor * (worth[:end, :-1] + rightness * ways[:end, :-1])
        ways, worth = next_ways, next_worth
    winners = np.arange(1, worth.shape[1])
    scores = (worth[:, 1:] / winners).sum(axis=1)
    idle = np.array([float(math.comb(abstentions, drawn)) for drawn in range(abstentions + 1)])
    return np.convolve(scores, idle)[: total + 1]
