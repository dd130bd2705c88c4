"""Leverages: by hand, and against plain loops of numpy with rank-one updates."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.measure.formulas.leverage import leverages, sparse_projection


def test_two_opposite_vectors_by_hand() -> None:
    """H = (1, -1), ridge 1: 1 / (1 + 2) each; at 0.01: 1 / 2.01."""
    vectors = torch.tensor([[1.0], [-1.0]])
    assert leverages(vectors, 1.0).tolist() == pytest.approx([1 / 3, 1 / 3])
    assert leverages(vectors, 0.01).tolist() == pytest.approx([1 / 2.01, 1 / 2.01])


def test_the_odd_one_out_has_the_largest_leverage() -> None:
    """Three equal vectors e1 and one e2, ridge 1: 1 / (3 + 1) and 1 / (1 + 1)."""
    vectors = torch.tensor([[1.0, 0.0]] * 3 + [[0.0, 1.0]])
    assert leverages(vectors, 1.0).tolist() == pytest.approx([0.25, 0.25, 0.25, 0.5])


def by_updates(vectors: np.ndarray, ridge: float) -> list[float]:
    """The released worker's way: an inverse that each vector updates in turn (Sherman and Morrison)."""
    inverse = np.eye(vectors.shape[1]) / ridge
    for h in vectors:
        inverse -= np.outer(inverse @ h, h @ inverse) / (1 + h @ inverse @ h)
    return [float(h @ inverse @ h) for h in vectors]


@given(
    rows=st.integers(1, 9), width=st.integers(1, 6), seed=st.integers(0, 999), ridge=st.sampled_from([0.01, 0.3, 2.0])
)
def test_they_equal_plain_loops(rows: int, width: int, seed: int, ridge: float) -> None:
    vectors = np.random.default_rng(seed).normal(size=(rows, width))
    found = leverages(torch.from_numpy(vectors), ridge)
    assert found.tolist() == pytest.approx(by_updates(vectors, ridge), abs=1e-9)
    assert bool(((found >= 0) & (found <= 1)).all())


def test_a_sparse_projection_is_mostly_zero_and_keeps_squared_lengths_on_average() -> None:
    generator = torch.Generator().manual_seed(0)
    drawn = [sparse_projection(64, 32, generator) for _ in range(40)]
    values = torch.stack(drawn)
    assert values.unique().tolist() == pytest.approx([-0.5, 0.0, 0.5])  # sqrt(sqrt(64) / 32)
    assert float((values != 0).double().mean()) == pytest.approx(1 / 8, rel=0.05)
    lengths = (torch.ones(64, dtype=torch.float64) @ values).square().sum(-1)
    assert float(lengths.mean()) == pytest.approx(64, rel=0.1)
    assert not torch.equal(drawn[0], drawn[1])
    again = sparse_projection(64, 32, torch.Generator().manual_seed(0))
    assert torch.equal(again, drawn[0])


def test_no_vectors() -> None:
    assert leverages(torch.zeros(0, 3), 0.1).tolist() == []
