"""A rank's part of a pack: its tokens, what they attend to, and the targets that they predict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor

from components.modeling.context.cuts import cut
from components.modeling.context.divided_rows import DividedRows
from components.modeling.packing.attention_plan import AttentionPlan
from components.modeling.packing.packed import Packed
from components.modeling.packing.ragged import Segment
from components.modeling.ranks import Ranks


class ContextPlan(AttentionPlan):
    """The queries of this rank's tokens; the keys are those of all ranks' tokens, in the pack's order."""

    def __init__(self, segments: tuple[Segment, ...], device: torch.device, divided: DividedRows) -> None:
        super().__init__(segments, device, num_keys=len(divided.places))
        self.divided = divided


@dataclass(frozen=True, kw_only=True)
class PackPart(Packed):
    """One rank's tokens of a pack. A rank without any computes one of another's, which counts for nothing."""

    divided: DividedRows
    """The tokens of the whole pack."""
    answers: DividedRows
    """The targets of the whole pack: each is of the rank with the token that predicts it."""

    @cached_property
    def attention(self) -> ContextPlan:  # type: ignore[override]
        """Return the plans of attention, built once for the part and used by every layer."""
        return ContextPlan(self.segments, self.tokens.device, self.divided)

    def to(self, device: torch.device | str) -> Self:
        """Return the part on another device."""
        moved = super().to(device)
        divided = {name: getattr(self, name).to(device) for name in ("divided", "answers")}
        part = replace(moved, **divided)
        part.__dict__["predictors"] = moved.predictors
        return part  # type: ignore[return-value]


def part_of(packed: Packed, ranks: Ranks) -> PackPart:
    """Return this rank's part of a pack; all ranks of the group must have the same pack."""
    host = packed.hosted
    cuts = cut(host.segments, ranks.count)
    tokens = [_tokens(segments) for segments in cuts]
    divided = DividedRows.of(tokens, ranks)
    # Of which rank each token is, and its place among the rank's tokens.
    owner, place = divided.places // divided.most, divided.places % divided.most
    owners = owner[host.predict]
    answers = DividedRows.of([(owners == rank).nonzero().squeeze(1) for rank in range(ranks.count)], ranks)
    own = tokens[ranks.index] if cuts[ranks.index] else torch.zeros(1, dtype=torch.long)
    # At least one target: no kernel is called for none.
    mine = answers.own if len(answers.own) else torch.zeros(1, dtype=torch.long)
    part = PackPart(
        tokens=host.tokens[own],
        positions=host.positions[own],
        predict=place[host.predict[answers.own]] if len(answers.own) else torch.zeros(1, dtype=torch.long),
        targets=host.targets[mine],
        sequence=host.sequence[mine],
        num_sequences=host.num_sequences,
        segments=tuple(cuts[ranks.index]) or (Segment(0, 1),),
        divided=divided,
        answers=answers,
    )
    device = packed.tokens.device
    return part if device.type == "cpu" else part.to(device)


def _tokens(segments: list[Segment]) -> Tensor:
    """Return the indices of segments' tokens."""
    ranges = [torch.arange(segment.start, segment.start + segment.length) for segment in segments]
    return torch.cat(ranges) if ranges else torch.empty(0, dtype=torch.long)
