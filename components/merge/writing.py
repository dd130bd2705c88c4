"""A model folder written tensor by tensor: the bytes that safetensors itself writes, without ever holding a file.

A file appears under its name when it is whole.
"""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.contract.model_folders.headers import FLOATS, INDEX, OTHERS, SINGLE, Stored
from components.merge.stack import DTYPES

ORDER = ("I64", "F64", "F32", "I32", "BF16", "F16", "I16", "I8", "U8", "BOOL")
"""How safetensors orders tensors of different types in a file; within a type by name."""
NAMES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}
WEIGHTS = (
    *(".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".npz", ".h5", ".msgpack", ".ot", ".tflite", ".mlmodel"),
    *(".gguf", ".ggml", ".onnx", ".onnx_data", ".nemo", ".llamafile"),
)
"""Of the first model, in any format: whoever loads one of these loads what was not merged."""
NOT_COPIED = (*WEIGHTS, *(f"{suffix}.index.json" for suffix in WEIGHTS), ".py", "adapter_config.json")
"""Ends of names: weights and their indexes, code, and what names an adapter."""
CARD = "README.md"
"""The card of the model that the first one is: not the merged one's."""
DTYPE_KEYS = ("dtype", "torch_dtype")


@dataclass(frozen=True)
class Planned:
    """A tensor to be written."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Return its bytes."""
        return math.prod(self.shape) * {**FLOATS, **OTHERS}[self.dtype]


def copy_rest(source: Path, folder: Path, dtype: str | None) -> None:
    """Copy what a model folder has beside weights; config.json names the weights' type, if that is another."""
    for path in sorted(source.rglob("*")):
        if path.is_file() and not path.name.lower().endswith(NOT_COPIED) and path.name != CARD:
            place = folder / path.relative_to(source)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, place)
    if dtype is not None:
        path = folder / "config.json"
        config = json.loads(path.read_text(encoding="utf-8"))
        named = [key for key in DTYPE_KEYS if key in config] or [DTYPE_KEYS[0]]
        path.write_text(json.dumps({**config, **dict.fromkeys(named, dtype)}, indent=2, sort_keys=True) + "\n")


class ShardWriter:
    """Writes the tensors of one file in its order; what was appended is written while the next is merged."""

    def __init__(self, path: Path, tensors: Iterable[Planned]) -> None:
        self.tensors = sorted(tensors, key=lambda planned: (ORDER.index(planned.dtype), planned.name))
        self._path, self._part = path, path.with_name(f".{path.name}.part")

    def __enter__(self) -> ShardWriter:
        self._stream = self._part.open("wb")
        self._thread = ThreadPoolExecutor(1)
        self._pending = self._thread.submit(self._stream.write, _header(self.tensors))
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            with self._stream, self._thread:
                if kind is None:
                    self._pending.result()
                    self._stream.flush()
                    os.fsync(self._stream.fileno())
                    self._part.replace(self._path)
        finally:
            self._part.unlink(missing_ok=True)

    def write(self, planned: Planned, rows: Tensor) -> None:
        """Append rows of a tensor, as its type; raise InputError where one is infinite or no number."""
        stored = rows.to(DTYPES[planned.dtype])
        extremes = torch.stack(stored.aminmax()) if stored.numel() else stored  # far faster than isfinite of all
        if not bool(torch.isfinite(extremes).all()):
            raise InputError(f"{planned.name}: a merged weight is infinite or no number in {planned.dtype}")
        raw: Any = stored.contiguous().flatten().view(torch.uint8).numpy()
        self.append(memoryview(raw))

    def append(self, raw: memoryview | bytes | bytearray) -> None:
        """Append bytes, which must not change any more; raise OSError where an earlier part could not be written."""
        self._pending.result()
        self._pending = self._thread.submit(self._stream.write, raw)


def _header(tensors: Iterable[Planned]) -> bytes:
    entries: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for planned in tensors:
        entries[planned.name] = {
            "dtype": planned.dtype,
            "shape": list(planned.shape),
            "data_offsets": [at, at + planned.size],
        }
        at += planned.size
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def planned_files(layout: Mapping[str, Stored], dtype: str | None) -> dict[str, list[Planned]]:
    """Return file -> tensors, divided among files as in `layout`; `dtype` is that of all floating-point numbers."""
    files: dict[str, list[Planned]] = {}
    for name, stored in layout.items():
        kind = NAMES[dtype] if dtype and stored.is_float else stored.dtype
        files.setdefault(stored.path.name, []).append(Planned(name, kind, stored.shape))
    return dict(sorted(files.items()))


def write_index(folder: Path, files: Mapping[str, list[Planned]]) -> None:
    """Write the index of several files; a model in one file has none."""
    if list(files) == [SINGLE]:
        return
    listed = {planned.name: file for file, tensors in files.items() for planned in tensors}
    total = sum(planned.size for tensors in files.values() for planned in tensors)
    content = {"metadata": {"total_size": total}, "weight_map": dict(sorted(listed.items()))}
    (folder / INDEX).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
