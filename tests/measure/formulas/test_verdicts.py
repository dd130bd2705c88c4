"""F1 against precision and recall."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.measure.formulas.verdicts import f1

PAIRS = st.lists(st.tuples(st.integers(0, 4), st.booleans()), max_size=12)


@given(PAIRS)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(pairs: list[tuple[int, bool]]) -> None:
    called, right = [score > 2 for score, _ in pairs], [own for _, own in pairs]
    hits = sum(a and b for a, b in zip(called, right, strict=True))
    found = f1(called, right)
    if not any(called) and not any(right):
        assert found is None
    elif not hits:
        assert found == 0
    else:
        precision, recall = hits / sum(called), hits / sum(right)
        assert found == pytest.approx(2 * precision * recall / (precision + recall))
