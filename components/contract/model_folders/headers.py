"""What the safetensors files of a model folder say of their tensors, read without their weights and without torch.

A file is the length of its header in 8 bytes, the header as JSON, and the tensors' bytes one after the other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.contract.model_folders.json_files import MOST_TOKENIZER_BYTES, read_object

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"
HEAD, EMBEDDING = "lm_head.weight", "model.embed_tokens.weight"
"""Names of the output matrix and of the embedding, which may be one."""
PICKLED = (".bin", ".pt", ".pth", ".pkl", ".ckpt")
LENGTH_BYTES = 8
MOST_HEADER_BYTES = 100_000_000
"""The format's own limit."""
FLOATS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Bytes of a number, by type: those that are merged."""
OTHERS = {"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}
"""The same of what is kept, such as a buffer of positions."""
MERGED = frozenset({*FLOATS, *OTHERS})
"""Types of the tensors that are merged or copied by a merge."""
BITS = {
    **{name: 8 * size for name, size in {**FLOATS, **OTHERS, "U64": 8, "U32": 4, "U16": 2, "C64": 8}.items()},
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    "F6_E2M3": 6,
    "F6_E3M2": 6,
    "F4": 4,
}
"""Bits of a number, by all types of the format."""


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
        """Return the bytes of a number of a type that is merged."""
        return {**FLOATS, **OTHERS}[self.dtype]

    @property
    def count(self) -> int:
        """Return how many numbers it has."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Return its bytes."""
        return -(-self.count * BITS[self.dtype] // 8)


def read_headers(folder: Path, types: Iterable[str] = BITS) -> dict[str, Stored]:
    """Return name -> place of all tensors of a model folder, sorted by name.

    Raises InputError where weights are missing, are no safetensors, are of none of the `types`, or do not lie where
    the header says.
    """
    types = frozenset(types)
    found: dict[str, Stored] = {}
    for name in weight_files(folder):
        for tensor, stored in read_header(folder / name, types).items():
            if tensor in found:
                raise InputError(f"{folder}: {tensor} is in {found[tensor].path.name} and in {name}")
            found[tensor] = stored
    return dict(sorted(found.items()))


def weight_files(folder: Path) -> list[str]:
    """Return the names of a folder's safetensors files: one, or the shards that its index names.

    Raises InputError for an index that is none, and for names that are missing or lead out of the folder.
    """
    index = folder / INDEX
    names: list[Any] = [SINGLE]
    if index.is_file():
        listed = read_object(index, MOST_TOKENIZER_BYTES).get("weight_map")
        if not isinstance(listed, dict) or not listed:
            raise InputError(f"{index} is no index of weights: weight_map names no file of any tensor")
        if wrong := next((name for name in listed.values() if not isinstance(name, str)), None):
            raise InputError(f"{index} is no index of weights: {str(wrong)[:100]!a} is no file name")
        names = sorted(set(listed.values()))
    for name in names:
        shown = name if name.isprintable() else ascii(name)
        if "/" in name or "\\" in name or name in ("", ".", ".."):
            raise InputError(f"{index} names {shown}: weights must be files of the folder itself; it has no {shown}")
        if not name.isprintable() or not (folder / name).is_file():
            pickled = sorted(path.name for path in folder.glob("*") if path.suffix in PICKLED)
            instead = f" (it has {pickled[0]})" if pickled else ""
            raise InputError(
                f"{folder} has no {shown}{instead}; weights must be safetensors (pickled weights are refused)"
            )
    return names


def read_header(path: Path, types: Iterable[str] = BITS) -> dict[str, Stored]:
    """Return the tensors of one safetensors file; raises InputError as `read_headers` does."""
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
    tensors = {
        name: _stored(path, name, entry, start, total, types)
        for name, entry in entries.items()
        if name != "__metadata__"
    }
    _refuse_overlaps(path, tensors, start, total)
    return tensors


def _refuse_overlaps(path: Path, tensors: Mapping[str, Stored], start: int, total: int) -> None:
    """Raise InputError unless the tensors lie one behind the other, as the format wants, up to the file's end."""
    end = start
    for name, stored in sorted(tensors.items(), key=lambda pair: (pair[1].begin, pair[1].size)):
        if stored.begin != end:
            raise InputError(f"{path}: {name} does not lie where the header says: at {stored.begin}, not at {end}")
        end += stored.size
    if end != total:
        raise InputError(f"{path} is no safetensors file: its tensors end at byte {end}, and it has {total}")


def _stored(path: Path, name: str, entry: Any, start: int, total: int, types: Iterable[str]) -> Stored:
    if not name.isprintable():  # such as half a character, which no file can hold
        raise InputError(f"{path}: a tensor is called {name!a}, which is no name")
    try:
        dtype, shape = entry["dtype"], tuple(entry["shape"])
        begin, end = entry["data_offsets"]
        known = isinstance(dtype, str) and dtype in types
        numbers = all(type(one) is int and one >= 0 for one in (*shape, begin, end))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path}: the header's entry of {name} cannot be read: {error!r}") from error
    if not known:
        shown = dtype if isinstance(dtype, str) and dtype.isprintable() else ascii(dtype)
        wanted = "merged; weights in 16, 32 or 64 bits are" if types == MERGED else "a type of safetensors"
        raise InputError(f"{path}: {name} is {shown}, which is not {wanted}")
    stored = Stored(path, dtype, shape, start + begin) if numbers else None
    if stored is None or end - begin != stored.size or start + end > total:
        raise InputError(f"{path}: {name} does not lie where the header says")
    return stored
