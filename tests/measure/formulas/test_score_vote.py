"""Sums of scores over draws of k judgements: by hand, and by brute force over all draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.measure.formulas.choosing import score_vote_at

VOTES = st.lists(
    st.tuples(st.one_of(st.none(), st.tuples(*[st.integers(1, 9)] * 3)), st.one_of(st.none(), st.integers(-3, 3))),
    min_size=1,
    max_size=6,
)


def first_is_best(totals: Sequence[float]) -> bool:
    return max(totals[1:]) < totals[0]


def vote(votes: Sequence[tuple[int, ...] | None], ks: Sequence[int], **more: object) -> list[float]:
    settings: dict[str, object] = {"worth": None, "kept": 0.5, "subsets": 500, "seed": 0, **more}
    return score_vote_at(votes, first_is_best, ks, **settings)  # type: ignore[arg-type]


def test_votes_by_hand() -> None:
    votes = [(9, 5), (4, 6), (5, 6)]  # one right judgement by 4, wrong ones by 2 and 1
    # of pairs the first two and the first and third are right (13 to 11, 14 to 11); all three sum to 18 against 17
    assert vote(votes, [1, 2, 3]) == pytest.approx([1 / 3, 2 / 3, 1.0])
    assert vote([(5, 5), None], [1, 2]) == [0.0, 0.0], "a tie is wrong, and who abstains does not settle it"
    assert vote([(6, 5), None], [1, 2]) == [0.5, 1.0]
    assert vote([None], [1]) == [0.0] and math.isnan(vote([None], [2])[0])


def test_the_meta_reward_keeps_half_by_hand() -> None:
    votes = [(6, 5), (1, 9), (6, 5), (1, 9)]
    assert vote(votes, [4]) == [0.0]
    assert vote(votes, [4], worth=[2.0, 1.0, 3.0, 0.0]) == [1.0], "both right ones are kept"
    assert vote(votes, [4], worth=[1.0, 2.0, 0.0, 3.0]) == [0.0]
    assert vote(votes, [1], worth=[1.0, 2.0, 0.0, 3.0]) == [0.5], "one of one is kept"
    assert vote(votes, [3], worth=[1.0, 0.0, 1.0, 0.0]) == [1.0], "half of three is one"
    assert vote(votes, [4], worth=[None, -99.0, None, -99.0]) == [0.0], "what has no score is kept last"
    assert vote([None, (6, 5)], [2], worth=[9.0, -9.0]) == [1.0], "what cannot be read takes no place"


@given(VOTES, st.sampled_from([0.25, 0.5, 1.0]), st.booleans())
def test_it_is_the_mean_over_all_draws(
    drawn: list[tuple[tuple[int, ...] | None, int | None]], kept: float, meta: bool
) -> None:
    votes, worth = [one for one, _ in drawn], [value for _, value in drawn]
    for k in range(1, len(votes) + 1):
        found = []
        for rows in combinations(range(len(votes)), k):
            voting = [row for row in rows if votes[row]]
            if meta:
                values = [-np.inf if worth[row] is None else worth[row] for row in voting]
                voting = [voting[place] for place in np.argsort(-np.array(values, dtype=float), kind="stable")]
                voting = voting[: max(1, int(k * kept))]
            sums = np.array([votes[row] or (0, 0, 0) for row in voting] or [(0, 0, 0)]).sum(axis=0)
            found.append(bool(sums[0] == sums.max() and (sums == sums.max()).sum() == 1))
        given_worth = worth if meta else None
        assert vote(votes, [k], worth=given_worth, kept=kept)[0] == pytest.approx(np.mean(found))


def test_drawn_subsets_are_near_all_of_them_and_the_same_each_time() -> None:
    votes = [(9, 5)] * 4 + [(3, 5)] * 6
    (whole,) = vote(votes, [5], subsets=252)
    (some,) = vote(votes, [5], subsets=200)
    assert vote(votes, [5], subsets=200) == [some]
    assert some == pytest.approx(whole, abs=4 * math.sqrt(0.25 / 200)) and some != whole
