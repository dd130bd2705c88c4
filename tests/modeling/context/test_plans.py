"""Each rank's kernels over its own queries and all keys: outputs are rows of the whole pack's, gradients add up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from components.modeling.context.cuts import cut
from components.modeling.native.attention import flash, flex
from components.modeling.native.attention.padded import attend_padded
from components.modeling.packing.attention_plan import AttentionPlan
from components.modeling.packing.ragged import Segment
from tests.modeling.native.attention import kernels
from tests.modeling.native.attention.test_flash import packs, segments_of
from tests.modeling.packing.test_blocks import visible

HEADS, KV_HEADS, WIDTH = 4, 2, 8
CPU = torch.device("cpu")
long_packs = st.lists(st.tuples(st.integers(1, 60), st.lists(st.integers(1, 90), max_size=3)), min_size=1, max_size=3)


@pytest.fixture(scope="module", autouse=True)
def reference() -> Iterator[None]:
    """A plain kernel in place of the one that only a GPU has."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(flash, "kernel_forward", kernels.forward)
        patch.setattr(flash, "kernel_backward", kernels.backward)
        yield


class Gathered:
    """Rows divided over ranks, of which all but one are elsewhere: keys and values of all, and their gradient."""

    def __init__(self, whole: Tensor) -> None:
        self.whole, self.grad = whole, torch.zeros_like(whole)

    def gather(self, part: Tensor) -> Tensor:
        return self.whole

    def sum(self, whole: Tensor, rows: int) -> Tensor:
        self.grad += whole
        return whole.new_zeros(rows, *whole.shape[1:])


def drawn(num_tokens: int) -> list[Tensor]:
    """Return queries, and keys beside values, in double precision."""
    generator = torch.Generator().manual_seed(num_tokens)
    shapes = ((num_tokens, HEADS, WIDTH), (num_tokens, 2 * KV_HEADS, WIDTH))
    return [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for shape in shapes]


def by_ranks(
    segments: tuple[Segment, ...], ranks: int, attend: Callable[[Tensor, Tensor, AttentionPlan], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor, Tensor]:
    """Return outputs and the gradients of queries and of keys and values, put together from all ranks."""
    query, both = drawn(sum(segment.length for segment in segments))
    out, grads = torch.zeros(len(query), HEADS * WIDTH).double(), [torch.zeros_like(t) for t in (query, both)]
    for own in cut(segments, ranks, least=1):
        if not own:
            continue
        rows = torch.cat([torch.arange(part.start, part.start + part.length) for part in own])
        plan = AttentionPlan(own, CPU, num_keys=len(query))
        mine, grad_both = attend(query.detach()[rows].requires_grad_(), both, plan)
        out[rows], grads[0][rows] = mine[0], mine[1]
        grads[1] += grad_both
    return out, grads[0], grads[1]


def weights_of(rows: Tensor) -> Tensor:
    return torch.cos(rows.detach() * 3)


def of_padded(window: int | None, limit: float | None = None) -> Callable[[Tensor, Tensor, AttentionPlan], Any]:
    def attend(query: Tensor, both: Tensor, plan: AttentionPlan) -> Any:
        out = attend_padded(query, *both.chunk(2, dim=1), plan.buckets, window, limit)
        grads = torch.autograd.grad((out * weights_of(out)).sum(), (query, both))
        return (out.detach(), grads[0]), grads[1]

    return attend


def of_flash(window: int | None) -> Callable[[Tensor, Tensor, AttentionPlan], Any]:
    def attend(query: Tensor, both: Tensor, plan: AttentionPlan) -> Any:
        elsewhere = Gathered(both.detach())
        own = torch.cat((query, torch.zeros(len(query), *both.shape[1:])), dim=1).flatten(1).detach().requires_grad_()
        out = flash.attend_flash(own, plan.calls(window), HEADS, KV_HEADS, elsewhere)
        (grad,) = torch.autograd.grad((out * weights_of(out)).sum(), own)
        return (out.detach(), grad.unflatten(1, (-1, WIDTH))[:, :HEADS]), elsewhere.grad

    return attend


def whole(segments: tuple[Segment, ...], window: int | None, limit: float | None = None) -> tuple[Tensor, ...]:
    query, both = drawn(sum(segment.length for segment in segments))
    (out, grad), grad_both = of_padded(window, limit)(query, both, AttentionPlan(segments, CPU))
    return out, grad, grad_both


@settings(max_examples=60, deadline=None)
@given(packs, st.integers(1, 4), st.sampled_from([None, 1, 2, 3, 5, 8]), st.sampled_from(["flash", "padded", "capped"]))
def test_any_pack_equals_one_rank(
    groups: list[tuple[int, list[int]]], ranks: int, window: int | None, kernel: str
) -> None:
    segments, limit = segments_of(groups), 2.0 if kernel == "capped" else None
    ours = by_ranks(segments, ranks, of_flash(window) if kernel == "flash" else of_padded(window, limit))
    for one, two in zip(ours, whole(segments, window, limit), strict=True):
        torch.testing.assert_close(one, two, atol=1e-11, rtol=1e-11)


@settings(max_examples=15, deadline=None)
@given(long_packs, st.integers(2, 3), st.sampled_from([None, 1, 100]))
def test_blocks_are_those_of_the_whole_packs_queries(
    groups: list[tuple[int, list[int]]], ranks: int, window: int | None
) -> None:
    segments = segments_of([(prompt * 4, [4 * length for length in responses]) for prompt, responses in groups])
    dense = visible(segments, window)
    for own in cut(segments, ranks, least=8):
        rows = torch.cat([torch.arange(part.start, part.start + part.length) for part in own])
        blocks = AttentionPlan(own, CPU, num_keys=len(dense)).blocks(window)
        at, zero = torch.arange(len(rows)).unsqueeze(1), torch.zeros((), dtype=torch.long)
        assert torch.equal(blocks.mask_mod(zero, zero, at, torch.arange(len(dense))), dense[rows])
        whole_blocks = -(-len(rows) // 128), -(-len(dense) // 128)
        padded = torch.zeros(whole_blocks[0] * 128, whole_blocks[1] * 128, dtype=torch.bool)
        padded[: len(rows), : len(dense)] = dense[rows]
        tiles = padded.unflatten(1, (-1, 128)).unflatten(0, (-1, 128)).transpose(1, 2)
        assert torch.equal(blocks.to_dense()[0, 0].bool(), tiles.flatten(2).any(2))
        for row, count in enumerate(blocks.full_kv_num_blocks[0, 0].tolist()):
            for column in blocks.full_kv_indices[0, 0, row, :count].tolist():
                assert tiles[row, column].all()


@pytest.mark.parametrize("window", [None, 20, 150])
@pytest.mark.parametrize("limit", [None, 2.0])
def test_plain_flex_equals_one_rank(window: int | None, limit: float | None) -> None:
    """Forward alone: the backward pass of the plain kernel is not there on a CPU."""
    segments = segments_of([(40, [9, 200]), (130, [1, 70, 30]), (5, [])])
    query, both = (tensor.detach() for tensor in drawn(sum(segment.length for segment in segments)))
    expected = whole(segments, window, limit)[0]
    for own in cut(segments, 2, least=16):
        rows = torch.cat([torch.arange(part.start, part.start + part.length) for part in own])
        plan = AttentionPlan(own, CPU, num_keys=len(query))
        ours = flex.attend_flex(query[rows], *both.chunk(2, dim=1), plan.blocks(window), limit, compiled=False)
        torch.testing.assert_close(ours, expected[rows], atol=1e-9, rtol=1e-9)
