"""Spread of lengths: by hand, in groups of any size, and without right responses."""

from __future__ import annotations

import math

import pytest

from tests.rl.build import batch_of, context, operator


def test_the_spread_of_lengths_by_hand() -> None:
    batch, now = batch_of([[1, 1, 0], [1, 0, 0]], [[2, 6, 4], [5, 5, 5]]), context()
    assert operator("annotate", "length_spread")(batch, now) is batch
    first = math.sqrt((4 + 4 + 0) / 3) / 4  # mean 4; the second group has no spread
    assert now.metrics == pytest.approx({"length_spread": first / 2, "length_spread_right": 2 / 4})


def test_groups_with_one_right_response_tell_nothing_of_right_lengths() -> None:
    now = context()
    operator("annotate", "length_spread")(batch_of([[1, 0], [0, 0, 0]], [[2, 4], [3, 3, 3]]), now)
    assert now.metrics == pytest.approx({"length_spread": (1 / 3 + 0) / 2})


def test_an_empty_batch_has_no_spread() -> None:
    batch, now = batch_of([[1, 0]]), context()
    operator("annotate", "length_spread")(batch.select(batch.outcomes == 7), now)
    assert now.metrics == {}
