"""What the safetensors files of a model folder say of their tensors, read without their weights and without torch.

A file is the length of its header in 8 bytes, the header as JSON, and the tensors' bytes one after the other.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import InputError

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
LENGTH_BYTES = 8
MOST_HEADER_BYTES = 100_000_000
"""The format's own limit."""
FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Bytes of a number, by type: those that are merged."""
OTHERS = {"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
"""The same of what is kept, such as a buffer of positions."""


@dataclass(frozen=True)
class Stored:
    """Where a tensor is, and what it is."""

    path: Path
    dtype: str
    """As safetensors writes it, such as BF16."""
    shape: tuple[int, ...]
    begin: int
    """First byte in the file."""

    @property
    def is_float(self) -> bool:
        """Return whether it is merged."""
        return self.dtype in FLOATS

    @property
    def item_bytes(self) -> int:
        """Return the bytes of a number."""
        return {**FLOATS, **OTHERS}[self.dtype]

    @property
    def count(self) -> int:
        """Return how many numbers it has."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Return its bytes."""
        return self.count * self.item_bytes


def read_headers(folder: Path) -> dict[str, Stored]:
    """Return name -> place of all tensors of a model folder, sorted by name.

    Raises InputError where weights are missing, are no safetensors, or do not lie where the header says.
    """
    found: dict[str, Stored] = {}
    for name in _files(folder):
        for tensor, stored in _header(folder / name).items():
            if tensor in found:
                raise InputError(f"{folder}: {tensor} is in {found[tensor].path.name} and in {name}")
            found[tensor] = stored
    return dict(sorted(found.items()))


def _files(folder: Path) -> list[str]:
    index = folder / INDEX
    names = [SINGLE]
    if index.is_file():
        try:
            names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{index} is no index of weights: {error!r}") from error
    for name in names:
        if not isinstance(name, str) or "/" in name or not name.isprintable() or not (folder / name).is_file():
            shown = name if isinstance(name, str) and name.isprintable() else ascii(name)
            raise InputError(f"{folder} has no {shown}; weights must be safetensors (pickled weights are refused)")
    return names


def _header(path: Path) -> dict[str, Stored]:
    total = path.stat().st_size
    with path.open("rb") as stream:
        length = int.from_bytes(stream.read(LENGTH_BYTES), "little")
        if not 0 < length <= min(MOST_HEADER_BYTES, total - LENGTH_BYTES):
            raise InputError(f"{path} is no safetensors file: its header would have {length} bytes of {total}")
        try:
            entries = json.loads(stream.read(length))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path} is no safetensors file: {error}") from error
    if not isinstance(entries, dict):
        raise InputError(f"{path} is no safetensors file: its header is no JSON object")
    start = LENGTH_BYTES + length
    return {name: _stored(path, name, entry, start, total) for name, entry in entries.items() if name != "__metadata__"}


def _stored(path: Path, name: str, entry: Any, start: int, total: int) -> Stored:
    if not name.isprintable():  # such as half a character, which no file can hold
        raise InputError(f"{path}: a tensor is called {name!a}, which is no name")
    try:
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        known = isinstance(dtype, str) and dtype in {**FLOATS, **OTHERS}
        numbers = all(type(one) is int and one >= 0 for one in (*shape, begin, end))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: the header's entry of {name} cannot be read: {error!r}") from error
    if not known:
        shown = dtype if isinstance(dtype, str) and dtype.isprintable() else ascii(dtype)
        raise InputError(f"{path}: {name} is {shown}, which is not merged; weights in 16, 32 or 64 bits are")
    stored = Stored(path, dtype, shape, start + begin) if numbers else None
    if stored is None or end - begin != stored.size or start + end > total:
        raise InputError(f"{path}: {name} does not lie where the header says")
    return stored
