"""Buckets: weights of one dtype end to end in a buffer of bounded size, which is what travels to an engine.

A bucket is bytes and a list of what they are; the list goes in the header of a message:

    names, shapes       of the tensors, in the order of the bytes
    dtype               of all of them, so that none begins at an odd place
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

BUCKET_BYTES = 1 << 28
"""Size of a bucket, unless one tensor alone is larger."""


@dataclass
class Bucket:
    """Some weights in a buffer."""

    buffer: Tensor
    """[n] uint8, on any device."""
    dtype: torch.dtype
    names: list[str] = field(default_factory=list)
    shapes: list[list[int]] = field(default_factory=list)
    size: int = 0
    """Bytes that are filled."""

    def takes(self, tensor: Tensor) -> bool:
        """Return whether a tensor fits behind the ones that are in it."""
        return tensor.dtype == self.dtype and self.size + tensor.nbytes <= self.buffer.numel()

    def add(self, name: str, tensor: Tensor) -> None:
        """Copy a tensor into it."""
        end = self.size + tensor.nbytes
        self.buffer[self.size : end].view(self.dtype).view(tensor.shape).copy_(tensor)
        self.names.append(name)
        self.shapes.append(list(tensor.shape))
        self.size = end

    @property
    def header(self) -> dict[str, Any]:
        """Return what the bytes are."""
        return {"names": self.names, "shapes": self.shapes, "dtype": str(self.dtype).removeprefix("torch.")}


def buckets(
    weights: Iterable[tuple[str, Tensor]], room: Callable[[int], Tensor], size: int = BUCKET_BYTES
) -> Iterator[Bucket]:
    """Yield all weights in buckets, each when it is full.

    `room` returns the buffer of the next bucket, of at least so many bytes. It is asked for after the bucket before has
    been yielded and the next one begins, so one buffer may serve all, or two in turn.
    """
    bucket: Bucket | None = None
    for name, tensor in weights:
        if bucket is not None and not bucket.takes(tensor):
            yield bucket
            bucket = None
        if bucket is None:
            bucket = Bucket(room(max(size, tensor.nbytes)), tensor.dtype)
        bucket.add(name, tensor)
    if bucket is not None:
        yield bucket
