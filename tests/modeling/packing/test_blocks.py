"""Blocks of the flex kernel against those of a mask of every query and key."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention.flex_attention import create_block_mask

from components.modeling.packing.blocks import BLOCK, plan_blocks
from components.modeling.packing.ragged import Segment
from tests.modeling.native.attention.test_flash import segments_of

CPU = torch.device("cpu")
lengths = st.one_of(st.integers(1, 40), st.integers(100, 700))
packs = st.lists(st.tuples(lengths, st.lists(lengths, max_size=3)), min_size=1, max_size=3)


def visible(segments: tuple[Segment, ...], window: int | None) -> torch.Tensor:
    """Return [N, N] which keys each token sees, token by token."""
    num_tokens = sum(segment.length for segment in segments)
    seen = torch.zeros(num_tokens, num_tokens, dtype=torch.bool)
    for segment in segments:
        prefix = list(range(segment.prefix_start, segment.prefix_start + segment.prefix_length))
        for query in range(segment.start, segment.start + segment.length):
            context = [*prefix, *range(segment.start, query + 1)]
            seen[query, context if window is None else context[-window:]] = True
    return seen


@settings(max_examples=25, deadline=None)
@given(packs, st.sampled_from([None, 1, 100, 300]))
def test_blocks_equal_those_of_the_dense_mask(groups: list[tuple[int, list[int]]], window: int | None) -> None:
    segments = segments_of(groups)
    dense = visible(segments, window)
    num_tokens = len(dense)
    ours = plan_blocks(segments, window, CPU)
    at = torch.arange(num_tokens)
    zero = torch.zeros((), dtype=torch.long)
    assert torch.equal(ours.mask_mod(zero, zero, at.unsqueeze(1), at), dense)
    theirs = create_block_mask(
        lambda b, h, q, k: dense[q, k], None, None, num_tokens, num_tokens, device="cpu", BLOCK_SIZE=BLOCK
    )
    assert torch.equal(ours.to_dense(), theirs.to_dense())
    mine, full = (listed(blocks.full_kv_num_blocks, blocks.full_kv_indices) for blocks in (ours, theirs))
    assert mine <= full  # a block that a prefix and own tokens see together is computed with the mask
    assert listed(ours.full_q_num_blocks, ours.full_q_indices) == {(key, query) for query, key in mine}
    partial = listed(ours.kv_num_blocks, ours.kv_indices)
    assert listed(ours.q_num_blocks, ours.q_indices) == {(key, query) for query, key in partial}
    assert not mine & partial


def listed(counts: torch.Tensor, indices: torch.Tensor) -> set[tuple[int, int]]:
    """Return the pairs of blocks that a kernel visits."""
    rows = enumerate(counts[0, 0].tolist())
    return {(row, other) for row, count in rows for other in indices[0, 0, row, :count].tolist()}


def test_by_hand() -> None:
    """A prompt of 256 with a response of 200: blocks 0 and 1 are the prompt, 2 and 3 the response."""
    blocks = plan_blocks((Segment(0, 256), Segment(256, 200, 0, 256)), None, CPU)
    assert blocks.to_dense()[0, 0].int().tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]
    # a last block that is not whole sees no block whole; the response's first does
    assert blocks.full_kv_num_blocks.flatten().tolist() == [0, 1, 2, 0]
    assert blocks.kv_num_blocks.flatten().tolist() == [1, 1, 1, 4]


def test_32k_tokens_take_little_memory() -> None:
    blocks = plan_blocks((Segment(0, 32_768),), None, CPU)
    tensors = (blocks.kv_indices, blocks.full_kv_indices, blocks.q_indices, blocks.full_q_indices)
    assert sum(tensor.numel() for tensor in tensors) < 1 << 19
    assert int(blocks.kv_num_blocks.sum()) == 256  # the diagonal alone is computed with a mask
