"""Parts of a training state: together they are the whole, for any number of ranks, and a missing one is noticed."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import CorruptArtifact
from components.modeling.ranks import Ranks
from components.modeling.training.shards import joined, share_of


@given(sizes=st.lists(st.integers(0, 50), max_size=12), count=st.integers(1, 5))
def test_shares_of_what_all_hold_are_disjoint_whole_and_even(sizes: list[int], count: int) -> None:
    tensors = {f"exp_avg/layer.{index}": torch.full((size,), float(index)) for index, size in enumerate(sizes)}
    parts = [share_of(tensors, Ranks(rank, count)) for rank in range(count)]
    assert sum(len(part) for part in parts) == len(tensors)
    whole = joined(parts, {})
    assert whole.keys() == tensors.keys() and all(torch.equal(whole[name], tensors[name]) for name in tensors)
    bytes_ = [sum(value.nbytes for value in part.values()) for part in parts]
    assert max(bytes_) - min(bytes_) <= 4 * max(sizes, default=0)


@given(
    rows=st.integers(1, 6),
    columns=st.integers(1, 6),
    cuts=st.sets(st.integers(1, 35)),
    lost=st.integers(0, 40),
)
def test_pieces_of_a_tensor_make_it_whole_or_an_error(rows: int, columns: int, cuts: set[int], lost: int) -> None:
    value = torch.arange(rows * columns, dtype=torch.float32)
    ends = [0, *sorted(cut for cut in cuts if cut < len(value)), len(value)]
    pieces = [{f"exp_avg/w@{a}": value[a:b]} for a, b in pairwise(ends)]
    shapes = {"w": (rows, columns)}
    assert torch.equal(joined(reversed(pieces), shapes)["exp_avg/w"], value.view(rows, columns))
    if len(pieces) > 1:
        del pieces[lost % len(pieces)]
        with pytest.raises(CorruptArtifact, match="lacks a part of 'exp_avg/w'"):
            joined(pieces, shapes)
