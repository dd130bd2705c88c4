"""The search against brute force: causes planted in every way, alone, together, several; noisy and failing halves."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pipelines.bisection.search import Exhausted, Search, Set, Verdict, most_tests

GOOD, BAD, UNDECIDED, FAILED = Verdict


class Oracle:
    """Bad if all of any planted cause is there; counts what it was asked."""

    def __init__(self, *causes: Set, undecided: frozenset[Set] = frozenset()) -> None:
        self.causes, self.undecided, self.asked = causes, undecided, dict[Set, Verdict]()

    def __call__(self, chosen: Set) -> Verdict:
        verdict = BAD if any(cause <= chosen for cause in self.causes) else GOOD
        self.asked[chosen] = UNDECIDED if chosen in self.undecided else verdict
        return self.asked[chosen]

    def tests(self, count: int) -> int:
        return len(self.asked.keys() - {frozenset(), frozenset(range(count))})


def found(count: int, oracle: Oracle) -> tuple[set[Set], Verdict | None]:
    search = Search(count, oracle)
    search.run()
    return {cause.all for cause in search.causes}, search.rest


@pytest.mark.parametrize("count", [1, 2, 3, 7, 12, 13])
def test_one_cause_is_named_wherever_it_is_in_few_tests(count: int) -> None:
    for planted in range(count):
        oracle = Oracle(frozenset({planted}))
        causes, rest = found(count, oracle)
        assert causes == {frozenset({planted})}
        assert rest is (GOOD if count > 1 else None)
        assert oracle.tests(count) <= most_tests(count)
    assert most_tests(12) == 6  # 4 halvings, the cause alone, BAD without it


@pytest.mark.parametrize("pair", list(combinations(range(8), 2)))
def test_two_that_are_bad_only_together_are_a_set(pair: tuple[int, int]) -> None:
    assert found(8, Oracle(frozenset(pair))) == ({frozenset(pair)}, GOOD)


def test_two_that_are_each_enough_are_two_causes() -> None:
    assert found(8, Oracle(frozenset({1}), frozenset({6}))) == ({frozenset({1}), frozenset({6})}, GOOD)


@settings(deadline=None)
@given(st.data())
def test_what_is_named_is_bad_and_minimal(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 9))
    subsets = st.frozensets(st.integers(0, count - 1), min_size=1, max_size=4)
    planted = data.draw(st.lists(subsets, min_size=1, max_size=3))
    undecided = data.draw(st.frozensets(st.frozensets(st.integers(0, count - 1)), max_size=6))
    oracle = Oracle(*planted, undecided=undecided - {frozenset(), frozenset(range(count))})
    search = Search(count, oracle)
    search.run()
    for cause in search.causes:
        assert any(one <= cause.all for one in planted), "it holds a whole cause"
        if oracle(cause.all) is BAD:
            assert all(oracle(cause.all - member) is not BAD for member in cause.members), "1-minimal, as ddmin's sets"


@settings(deadline=None)
@given(st.frozensets(st.integers(0, 7), min_size=1, max_size=3), st.integers(0, 7))
def test_without_noise_brute_force_names_the_same(planted: Set, other: int) -> None:
    assume(other not in planted)
    oracle = Oracle(planted)
    smallest = [
        frozenset(chosen)
        for size in range(1, 9)
        for chosen in combinations(range(8), size)
        if oracle(frozenset(chosen)) is BAD and all(oracle(frozenset(chosen) - {one}) is GOOD for one in chosen)
    ]
    assert found(8, Oracle(planted))[0] == set(smallest)


def test_halves_that_do_not_run_leave_a_set_that_no_half_tells_apart() -> None:
    def test(chosen: Set) -> Verdict:
        if len(chosen & {2, 3}) == 1:  # one of them alone is no valid recipe
            return FAILED
        return BAD if {2, 3} <= chosen else GOOD

    search = Search(6, test)
    search.run()
    assert [cause.members for cause in search.causes] == [(frozenset({2, 3}),)]
    assert search.rest is GOOD


def test_a_search_that_may_go_on_no_longer_says_where_the_cause_is() -> None:
    oracle = Oracle(frozenset({9}))

    def test(chosen: Set) -> Verdict:
        if chosen not in oracle.asked and len(oracle.asked) >= 2:
            raise Exhausted
        return oracle(chosen)

    search = Search(12, test)
    with pytest.raises(Exhausted):
        search.run()
    assert search.bad - search.good == {9, 10, 11}
