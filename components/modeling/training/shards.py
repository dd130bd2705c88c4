"""Parts of a training state that each rank saves, and the whole from all parts, whatever the number of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from components.contract.errors import CorruptArtifact
from components.modeling.ranks import Ranks

AT = "@"
"""Separates a tensor's name from the first element of a piece of it."""


def part_name(kind: str, rank: int) -> str:
    """Return the name of the file of a rank's part."""
    return f"{kind}{rank:05d}.safetensors"


def share_of(tensors: Mapping[str, Tensor], ranks: Ranks) -> dict[str, Tensor]:
    """Return this rank's tensors of those that all ranks hold: the same number of bytes for each, as nearly as it goes.

    The largest first, each to the rank with the least so far.
    """
    loads, own = [0] * ranks.count, {}
    for name in sorted(tensors, key=lambda name: (-tensors[name].nbytes, name)):
        rank = loads.index(min(loads))
        loads[rank] += tensors[name].nbytes
        if rank == ranks.index:
            own[name] = tensors[name]
    return own


def joined(parts: Iterable[Mapping[str, Tensor]], shapes: Mapping[str, Sequence[int]]) -> dict[str, Tensor]:
    """Return the whole tensors of all ranks' parts; `shapes` are those of the parameters.

    Raises CorruptArtifact for a tensor of which a piece is missing.
    """
    whole: dict[str, Tensor] = {}
    pieces: dict[str, dict[int, Tensor]] = {}
    for part in parts:
        for key, value in part.items():
            name, at, first = key.rpartition(AT)
            if at:
                pieces.setdefault(name, {})[int(first)] = value
            else:
                whole[key] = value
    for name, found in pieces.items():
        shape = torch.Size(shapes[name.partition("/")[2] or name])
        ends = [first + piece.numel() for first, piece in sorted(found.items())]
        if sorted(found) != [0, *ends[:-1]] or ends[-1] != shape.numel():
            raise CorruptArtifact(f"the checkpoint lacks a part of {name!r}: was the shard of a rank left out?")
        whole[name] = torch.cat([piece for _, piece in sorted(found.items())]).view(shape)
    return whole
