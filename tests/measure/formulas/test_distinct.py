"""How distinct texts are: expressions, cosines and their combination, by hand and by brute force."""

from __future__ import annotations

import time
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.measure.formulas.distinct import cosines, count_cosines, distinctness, expressions


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("3 + 4 = 7, then 7+2=9", {"3+4=7", "7+2=9"}),
        ("<think>3+4=7 7+2=9<answer>9", {"3+4=7", "7+2=9"}),
        ("x^2 = 4 and 1.5*y", {"x^2=4", "1.5*y"}),
        ("a well-known word, v1.2-3 and 5", set()),
        ("12 / 4\n= 3", {"12/4=3"}),
        ("", set()),
        ("+ 3 +", set()),
        ("3++4", set()),
    ],
)
def test_expressions(text: str, found: set[str]) -> None:
    assert expressions(text) == found


@pytest.mark.parametrize(
    "text", ["1" * 200_000, "1+" * 100_000, "a" * 200_000, "1 " * 100_000, "1." * 100_000, " " * 200_000]
)
def test_a_long_hostile_text_takes_no_longer_than_its_length_asks(text: str) -> None:
    began = time.process_time()
    expressions(text)
    assert time.process_time() - began < 2.0


def test_cosines_of_counts_by_hand() -> None:
    rows = ["aab", "ab", "cc", ""]
    found = count_cosines(rows)
    assert float(found[0, 1]) == pytest.approx(3 / (5**0.5 * 2**0.5))
    assert found[2].tolist() == [0, 0, 1, 0] and torch.equal(found, found.T)
    pairs = count_cosines(["aab", "ab"], 2)  # aa ab, and ab
    assert float(pairs[0, 1]) == pytest.approx(1 / 2**0.5)


@given(st.lists(st.text("abc", max_size=6), min_size=1, max_size=5), st.integers(1, 2))
def test_cosines_of_counts_equal_those_of_dense_vectors(rows: list[str], n: int) -> None:
    grams = sorted({row[i : i + n] for row in rows for i in range(len(row) - n + 1)})
    dense = torch.tensor(
        [[Counter(row[i : i + n] for i in range(len(row) - n + 1))[gram] for gram in grams] for row in rows]
    ).reshape(len(rows), len(grams))
    expected = cosines(dense).fill_diagonal_(1.0)
    assert torch.allclose(count_cosines(rows, n), expected)


def test_distinctness_by_hand() -> None:
    similar = torch.tensor([[1.0, 0.8, 0.2], [0.8, 1.0, 0.4], [0.2, 0.4, 1.0]], dtype=torch.float64)
    alone = distinctness(similar, [frozenset()] * 3, 0.5)
    assert alone.tolist() == pytest.approx([0.5, 0.4, 0.7])
    held = [frozenset({"1+2", "3+4"}), frozenset({"1+2"}), frozenset()]  # half, none, and nothing of its own
    assert distinctness(similar, held, 0.5).tolist() == pytest.approx([0.5, 0.2, 0.35])
    assert distinctness(similar, held, 0.0).tolist() == pytest.approx([0.5, 0.4, 0.7])
    assert distinctness(-similar, held, 0.0).tolist() == [1.0, 1.0, 1.0], "opposite vectors are no more than distinct"


def test_copies_are_not_distinct() -> None:
    rows = ["1+2=3"] * 4
    assert distinctness(count_cosines(rows), [expressions(row) for row in rows], 0.5).tolist() == pytest.approx([0] * 4)
