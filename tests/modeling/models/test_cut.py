"""Parts of parameters: by hand, and every cut put together again."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.models.cut import Cut, Run


def test_copies_of_key_heads_by_hand() -> None:
    """Queries of 8 rows among 4 ranks; keys and values of 2 heads of 2 rows, each on two ranks."""
    cut = Cut(((8, 4), (4, 2), (4, 2)))
    whole = torch.arange(16.0).unsqueeze(1)
    parts = [cut.part(whole, rank, 4).flatten().tolist() for rank in range(4)]
    assert parts[0] == [0, 1, 8, 9, 12, 13] and parts[1] == [2, 3, 8, 9, 12, 13]
    assert parts[2] == [4, 5, 10, 11, 14, 15] and parts[3] == [6, 7, 10, 11, 14, 15]
    assert [run.first for run in cut.runs(16, 1, 4)] == [True, False, False]
    assert list(cut.runs(16, 2, 4)) == [Run(0, 4, 2, 2, 4, True), Run(2, 10, 2, 1, 2, True), Run(4, 14, 2, 1, 2, True)]


def test_what_all_have_counts_on_the_first() -> None:
    assert [next(Cut().runs(5, rank, 2)).first for rank in (0, 1)] == [True, False]
    assert [next(Cut(columns=True).runs(5, rank, 2)).first for rank in (0, 1)] == [True, True]
    assert Cut().alike and Cut(summed=True).alike and not Cut(columns=True).alike and not Cut(((2, 1),)).alike


@given(
    ranks=st.sampled_from([1, 2, 4, 8]),
    blocks=st.lists(st.tuples(st.integers(1, 3), st.sampled_from([1, 2, 4, 8])), max_size=3),
    columns=st.booleans(),
)
def test_parts_together_are_the_whole(ranks: int, blocks: list[tuple[int, int]], columns: bool) -> None:
    sizes = tuple((rows * parts, parts) for rows, parts in blocks if ranks % parts == 0)
    cut = Cut(columns=True) if columns else Cut(sizes)
    whole = torch.arange(float(8 * (sum(rows for rows, _ in sizes) if cut.blocks else 5))).view(-1, 8)
    parts = [cut.part(whole, rank, ranks) for rank in range(ranks)]
    assert torch.equal(cut.joined(parts), whole)
    assert cut.shape(parts[0].shape, ranks) == tuple(whole.shape)
    counted = torch.zeros(len(whole))
    for rank, part in enumerate(parts):
        for run in cut.runs(len(whole), rank, ranks):
            assert columns or torch.equal(part[run.own : run.own + run.rows], whole[run.whole : run.whole + run.rows])
            counted[run.whole : run.whole + run.rows] += run.first
    assert set(counted.tolist()) == {ranks if columns else 1.0}
