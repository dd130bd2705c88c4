"""Tokens of responses by prompt: by hand, and as stage evaluate's own mean."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.measure.test_occurrences import written
from tests.measure.test_refusal import measured


def test_by_hand() -> None:
    outcomes = replace(written("a", "b", "c"), lengths=(3, 5, 10))
    assert measured("response_tokens", outcomes) == {"response_tokens": [6.0]}


@given(st.lists(st.integers(1, 500), min_size=1, max_size=6))
def test_agrees_with_numpy(lengths: list[int]) -> None:
    outcomes = replace(written(*["x"] * len(lengths)), lengths=tuple(lengths))
    assert measured("response_tokens", outcomes)["response_tokens"] == [pytest.approx(np.mean(lengths))]
