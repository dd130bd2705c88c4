"""What one rank reads of a checkpoint whose tensors are cut by rows: its own rows, whatever the number of ranks then.

A file of another rank is opened only if it holds some of them, and of an open file only those are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from torch import Tensor

from components.contract.errors import CorruptArtifact
from components.modeling.training.shards import AT, part_name

Elements = Callable[[str], range]
"""Which elements of a parameter, flattened, a rank has."""


class _Piece(NamedTuple):
    """Elements [first, stop) of a tensor, flattened, as `name` in a file."""

    first: int
    stop: int
    file: Any
    name: str


class OwnParts:
    """The files of one kind of all ranks' parts; `part` gives the path of a file by its name.

    Tensors are returned whole, and only this rank's elements are filled in: the rest is memory that nothing touches, so
    that it takes none.
    """

    def __init__(self, kind: str, ranks: int, part: Callable[[str], Path], elements: Elements) -> None:
        self._kind, self._ranks, self._part, self._elements = kind, ranks, part, elements
        self._open: dict[int, Any] = {}
        self._pieces: dict[str, list[_Piece]] = defaultdict(list)
        self._uncut: dict[str, Any] = {}
        """Tensors that are no pieces, such as counts of updates, and the file of each."""
        self.bytes_read = 0
        """Bytes of tensors read so far."""

    @property
    def files(self) -> list[int]:
        """Return the ranks whose files are open."""
        return sorted(self._open)

    def weights(self, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
        """Return the parameters of these names and shapes; those that no open file has a piece of are left out.

        Raises CorruptArtifact for a missing piece.
        """
        self._open_holders(shapes)
        found = {name: torch.empty(0) for name in self._pieces.keys() - shapes.keys()}  # of another model
        for name, shape in shapes.items():
            if not self._elements(name):
                found[name] = torch.empty(shape)
            elif name in self._pieces:
                found[name] = self._filled(name, shape, self._elements(name))
        return found

    def states(self, shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
        """Return "<kind>/<parameter name>" -> tensor of the parameters of which this rank has elements."""
        self._open_holders(shapes)
        found = {key: self._count(file.get_tensor(key)) for key, file in self._uncut.items()}
        for key in self._pieces:
            name = key.partition("/")[2]
            if name in shapes and self._elements(name):
                found[key] = self._filled(key, shapes[name], self._elements(name))
        return found

    def _filled(self, key: str, shape: torch.Size, wanted: range) -> Tensor:
        whole, length = None, 0
        for piece in self._pieces[key]:
            low, high = max(piece.first, wanted.start), min(piece.stop, wanted.stop)
            if low < high:
                values = self._count(piece.file.get_slice(piece.name)[low - piece.first : high - piece.first])
                whole = torch.empty(shape, dtype=values.dtype) if whole is None else whole
                whole.view(-1)[low:high] = values
                length += high - low
        if whole is None or length != len(wanted):
            raise CorruptArtifact(f"the checkpoint lacks a part of {key!r}: was the shard of a rank left out?")
        return whole

    def _open_holders(self, shapes: Mapping[str, torch.Size]) -> None:
        """Open the files of the ranks that saved some of this rank's elements, as fully_shard cuts rows."""
        for name, shape in shapes.items():
            if wanted := self._elements(name):
                each = -(-shape[0] // self._ranks) * prod(shape[1:])
                for rank in range(wanted.start // each, (wanted.stop - 1) // each + 1):
                    if rank not in self._open:
                        self._open[rank] = self._opened(rank)

    def _opened(self, rank: int) -> Any:
        path = self._part(part_name(self._kind, rank))
        if not path.is_file():
            raise CorruptArtifact(f"{path.parent}: {path.name}, one of {self._ranks} parts, is not there")
        file = safe_open(path, framework="pt")
        for name in file.keys():  # noqa: SIM118 (it is no mapping)
            key, at, first = name.rpartition(AT)
            if at:
                length = file.get_slice(name).get_shape()[0]
                self._pieces[key].append(_Piece(int(first), int(first) + length, file, name))
            else:
                self._uncut[name] = file
        return file

    def _count(self, tensor: Tensor) -> Tensor:
        self.bytes_read += tensor.nbytes
        return tensor
