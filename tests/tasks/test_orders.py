"""Common orders and shares of right pairs: by hand, and against brute force."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.tasks.orders import common_order, right_share


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3]),
        ([0, 1, 2, 3], [3, 2, 1, 0], [0]),  # of equally long ones the best of the first order
        ([2, 0, 3, 1], [0, 2, 1, 3], [2, 3]),  # as long: 2 1, 0 3 and 0 1
        ([0, 1, 2, 3], [3, 0, 1, 2], [0, 1, 2]),
        ([], [], []),
    ],
)
def test_by_hand(first: list[int], second: list[int], expected: list[int]) -> None:
    assert common_order(first, second) == expected


@given(st.integers(1, 6).flatmap(lambda count: st.tuples(*[st.permutations(range(count))] * 2)))
def test_agrees_with_all_sub_orders(orders: tuple[list[int], list[int]]) -> None:
    first, second = orders
    count = len(first)
    common = [
        [first[at] for at in places]
        for size in range(count, 0, -1)
        for places in combinations(range(count), size)  # in the order of the earliest places
        if [second.index(first[at]) for at in places] == sorted(second.index(first[at]) for at in places)
    ]
    assert common_order(first, second) == common[0]
    assert len(common_order(second, first)) == len(common[0])


def test_orders_of_other_things_are_refused() -> None:
    for second in ([0, 2], [0], [0, 0]):
        with pytest.raises(ValueError, match="other things"):
            common_order([0, 1], second)


def test_share_of_right_pairs_by_hand() -> None:
    assert right_share([3, 2, 1]) == 1
    assert right_share([2, 3, 1]) == pytest.approx(2 / 3)
    assert right_share([1, 2, 1]) == 0.5, "the pair of equal scores does not count"
    assert right_share([1, 1]) is None and right_share([]) is None
