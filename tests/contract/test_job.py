"""Retries: the pause before each, by hand."""

from __future__ import annotations

import pytest

from components.contract.job import Retry


@pytest.mark.parametrize(("retry", "seconds"), [(1, 5.0), (2, 10.0), (3, 20.0), (4, 30.0), (5, 30.0), (100_000, 30.0)])
def test_pauses_double_up_to_the_longest(retry: int, seconds: float) -> None:
    assert Retry(retries=4, backoff_seconds=5, max_backoff_seconds=30).pause_before(retry) == seconds


def test_a_pause_of_a_part_of_a_second_stays_one() -> None:
    assert [Retry(backoff_seconds=0.25).pause_before(retry) for retry in (1, 2, 3)] == [0.25, 0.5, 1.0]
    assert Retry(backoff_seconds=0).pause_before(7) == 0.0
    assert Retry(backoff_seconds=600, max_backoff_seconds=300).pause_before(1) == 300.0
