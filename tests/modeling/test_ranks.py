"""Ranks in a mesh: who has the same rows, who shares out a weight, who has which part of a matrix."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from torch import distributed
from torch.testing._internal.distributed.fake_pg import FakeStore

from components.modeling.ranks import Ranks, current_ranks, ranks_along
from components.runtime.system.mesh import CONTEXT, SHARDS, TENSOR, arrange


@contextmanager
def rank_of(rank: int, world: int, **sizes: int) -> Iterator[None]:
    """Be one rank of a process group without the others."""
    distributed.init_process_group("fake", rank=rank, world_size=world, store=FakeStore())
    try:
        arrange(**sizes)
        yield
    finally:
        distributed.destroy_process_group()
        arrange()


def place(ranks: Ranks) -> tuple[int, int]:
    return ranks.index, ranks.count


def test_neighbours_are_of_one_tensor_group_and_count_once() -> None:
    places = []
    for rank in range(8):
        with rank_of(rank, 8, tensor=2, context=2):
            ranks = current_ranks()
            assert place(ranks.all) == (rank, 8) and ranks.first == (rank == 0)
            places.append([place(found) for found in (ranks, *map(ranks_along, (CONTEXT, TENSOR, SHARDS)))])
            members = distributed.get_process_group_ranks(ranks_along(TENSOR).group)
            assert members == [rank // 2 * 2, rank // 2 * 2 + 1]
            assert distributed.get_process_group_ranks(ranks.group) == [rank % 4, rank % 4 + 4]
            assert distributed.get_process_group_ranks(ranks_along(SHARDS).group) == list(range(rank % 2, 8, 2))
    assert [data for data, *_ in places] == [(rank // 4, 2) for rank in range(8)]
    assert [context for _, context, *_ in places] == [(rank // 2 % 2, 2) for rank in range(8)]
    assert [tensor for *_, tensor, _ in places] == [(rank % 2, 2) for rank in range(8)]
    assert [shard for *_, shard in places] == [(rank // 2, 4) for rank in range(8)]


def test_a_tensor_group_has_the_same_items_in_the_same_rounds() -> None:
    found = []
    for rank in range(4):
        with rank_of(rank, 4, tensor=2):
            ranks = current_ranks()
            found.append((list(ranks.share("abcde")), list(ranks.rounds("abc"))))
    assert found[0] == found[1] == (["a", "c", "e"], [("a", True), ("c", True)])
    assert found[2] == found[3] == (["b", "d"], [("b", True), ("c", False)])


def test_without_a_mesh_each_process_is_a_data_rank() -> None:
    with rank_of(3, 4):
        assert place(current_ranks()) == place(current_ranks().all) == place(ranks_along(SHARDS)) == (3, 4)
        assert place(ranks_along(TENSOR)) == place(ranks_along(CONTEXT)) == (0, 1)
        assert not ranks_along(TENSOR).first
    assert current_ranks() == ranks_along(TENSOR) == Ranks() and Ranks().first


def test_ranks_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ValueError, match="6 ranks are not divided by tensor 4 x context 1"), rank_of(0, 6, tensor=4):
        pass
