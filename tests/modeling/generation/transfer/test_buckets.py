"""Buckets: what goes in comes out, in buffers of bounded size."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from components.modeling.generation.engine.transfer.bucket import Bucket, buckets

DTYPES = [torch.float32, torch.bfloat16, torch.int8]
TENSORS = st.lists(st.tuples(st.lists(st.integers(0, 5), max_size=3), st.sampled_from(DTYPES)), max_size=12)


def _unpacked(bucket: Bucket) -> dict[str, Tensor]:
    """Return copies of a bucket's tensors, read by its header alone."""
    header, at, found = bucket.header, 0, {}
    dtype = getattr(torch, header["dtype"])
    for name, shape in zip(header["names"], header["shapes"], strict=True):
        end = at + torch.Size(shape).numel() * dtype.itemsize
        found[name] = bucket.buffer[at:end].view(dtype).view(shape).clone()
        at = end
    assert at == bucket.size
    return found


@given(TENSORS, st.integers(1, 80))
def test_every_tensor_arrives_in_one_of_two_buffers(kinds: list[tuple[list[int], torch.dtype]], size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = {
        f"w{at}": torch.randint(-9, 9, shape, generator=generator).to(dtype) for at, (shape, dtype) in enumerate(kinds)
    }
    rooms, turn, asked = [torch.empty(0, dtype=torch.uint8)] * 2, 0, []

    def room(wanted: int) -> Tensor:
        asked.append(wanted)
        if rooms[turn].numel() < wanted:
            rooms[turn] = torch.full((wanted,), 255, dtype=torch.uint8)
        return rooms[turn]

    found: dict[str, Tensor] = {}
    for bucket in buckets(weights.items(), room, size):
        assert bucket.size <= max(size, bucket.buffer.numel())
        found |= _unpacked(bucket)
        turn = 1 - turn
    assert list(found) == list(weights)
    assert all(
        torch.equal(found[name], tensor) and found[name].dtype == tensor.dtype for name, tensor in weights.items()
    )
    assert max(asked, default=size) <= max([size, *(tensor.nbytes for tensor in weights.values())])


def test_by_hand() -> None:
    """8 bytes a bucket: 4 + 4, then 2 of another dtype alone, then one of 12 bytes in a buffer of its own."""
    weights = {
        "a": torch.ones(1),
        "b": torch.full((1,), 2.0),
        "c": torch.ones(1, dtype=torch.bfloat16),
        "d": torch.arange(6.0).view(2, 3).T[:, :1],
    }
    found = []
    for bucket in buckets(weights.items(), lambda size: torch.empty(size, dtype=torch.uint8), 8):
        found.append((bucket.names, bucket.size, bucket.buffer.numel()))
    assert found == [(["a", "b"], 8, 8), (["c"], 2, 8), (["d"], 12, 12)]
