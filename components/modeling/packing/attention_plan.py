"""AttentionPlan: what each kernel of attention needs to know of a pack, built once when a layer first asks for it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import torch

from components.modeling.packing.blocks import plan_blocks
from components.modeling.packing.ragged import RaggedPlan, Segment, plan_buckets
from components.modeling.packing.varlen import VarlenCall, plan_calls

if TYPE_CHECKING:
    from torch.nn.attention.flex_attention import BlockMask


class AttentionPlan:
    """Segments of a pack; index tensors are built on the host and sent to the device without a wait."""

    def __init__(self, segments: Sequence[Segment], device: torch.device, *, num_keys: int | None = None) -> None:
        """`num_keys` is given where segments do not cover the keys, because other ranks have the rest's queries."""
        self.segments, self.device, self._num_keys = segments, device, num_keys
        self.widest = max(segment.keys for segment in segments)
        """Most keys of any segment: the positions of the longest sequence."""
        self.num_tokens = sum(segment.length for segment in segments)
        """Queries."""
        self._calls: dict[int | None, tuple[VarlenCall, ...]] = {}
        self._blocks: dict[int | None, BlockMask] = {}

    @cached_property
    def buckets(self) -> RaggedPlan:
        """Return the segments padded together."""
        return plan_buckets(self.segments, self.device)

    def calls(self, window: int | None) -> tuple[VarlenCall, ...]:
        """Return the calls of a varlen kernel."""
        if window not in self._calls:
            self._calls[window] = plan_calls(self.segments, window, self.device, cover=self._num_keys is None)
        return self._calls[window]

    def blocks(self, window: int | None) -> BlockMask:
        """Return the blocks of the flex kernel."""
        if window not in self._blocks:
            self._blocks[window] = plan_blocks(self.segments, window, self.device, self._num_keys)
        return self._blocks[window]
