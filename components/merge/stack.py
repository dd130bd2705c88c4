"""The tensors of several models, side by side, in blocks of rows: what mergers work on.

Nothing is mapped into memory and nothing is held longer than its block, so that memory depends neither on the models'
sizes nor on those of their tensors. Numbers are float32, whatever is stored.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from components.contract.errors import InputError
from components.contract.model_folders.headers import Stored
from components.merge.quantiles import kth_largest
from components.merge.sums import dot

BLOCK = 1 << 20
"""Most numbers of a block, unless a row has more. What `dare` draws depends on it."""
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}


@dataclass(frozen=True)
class Block:
    """Some rows of a tensor in every model, [R, ...] each."""

    name: str
    """Of the tensor."""
    first: int
    """Number of its first row."""
    models: list[Tensor]
    own_base: Tensor | None
    seed: int

    @property
    def base(self) -> Tensor:
        """Return the base's rows."""
        assert self.own_base is not None, "the stage checks that a merger has the base that it needs"
        return self.own_base

    def delta(self, model: int) -> Tensor:
        """Return a model's rows minus the base's."""
        return self.models[model] - self.base

    def deltas(self) -> list[Tensor]:
        """Return every model's rows minus the base's: task vectors."""
        return [self.delta(model) for model in range(len(self.models))]

    def uniform(self, what: str) -> Tensor:
        """Return numbers in [0, 1), one for each entry, which depend on seed, tensor, rows and `what` alone."""
        key = f"{self.seed}\n{what}\n{self.name}\n{self.first}".encode()
        generator = torch.Generator().manual_seed(int.from_bytes(hashlib.sha256(key).digest()[:8], "big") >> 1)
        return torch.rand(self.models[0].shape, generator=generator)


@dataclass(frozen=True)
class Probing:
    """What a probe of the first model reads."""

    model: Path
    datasets: tuple[Path, ...]
    device: str


@dataclass
class Stack:
    """One tensor of all models, in the order of input `models`."""

    name: str
    shape: tuple[int, ...]
    family: Family
    stored: Sequence[Stored]
    base: Stored | None
    _sums: dict[Any, Any] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Return the number of models."""
        return len(self.stored)

    @property
    def rows(self) -> int:
        """Return the number of rows; a number alone is a row."""
        return self.shape[0] if self.shape else 1

    def fits(self, pattern: str) -> bool:
        """Return whether its name fits a pattern."""
        return fnmatchcase(self.name, pattern)

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks in order, read from the files each time; the next one is read while one is worked on."""
        bounds = list(self._bounds())
        if not bounds:
            return
        read = self.family.reader.submit
        coming = read(self._read, *bounds[0])
        for following in bounds[1:]:
            block, coming = coming.result(), read(self._read, *following)
            yield block
        yield coming.result()

    def _read(self, first: int, last: int) -> Block:
        models = [self.family.read(stored, first, last) for stored in self.stored]
        base = None if self.base is None else self.family.read(self.base, first, last)
        return Block(self.name, first, models, base, self.family.seed)

    def deltas(self, model: int) -> Iterator[Tensor]:
        """Yield one model's rows minus the base's, block by block; the other models are not read."""
        assert self.base is not None
        for first, last in self._bounds():
            yield self.family.read(self.stored[model], first, last) - self.family.read(self.base, first, last)

    def dot(self, first: int, second: int) -> float:
        """Return the inner product of two models' tensors as flat vectors."""
        if (first, second) not in self._sums:
            pairs = [(first, first), (first, second), (second, second)]
            found: dict[tuple[int, int], list[float]] = {pair: [] for pair in pairs}
            for block in self.blocks():  # all products of the two in one reading
                for one, other in found:
                    found[one, other].append(dot(block.models[one], block.models[other]))
            self._sums.update({pair: math.fsum(parts) for pair, parts in found.items()})
        return cast(float, self._sums[first, second])

    def kept_from(self, model: int, share: float, *, whole_model: bool) -> float:
        """Return the magnitude from which an entry of a task vector is among the largest `share` of them.

        Of this tensor, or of the whole model; 0 where all are.
        """
        if not whole_model:
            return _kept_from([self], model, share)
        key = "kept_from", model, share
        return cast(float, self.family.once(key, lambda: _kept_from(list(self.family.stacks()), model, share)))

    def _bounds(self) -> Iterator[tuple[int, int]]:
        if 0 in self.shape:  # without numbers there are no blocks, however many rows a header claims
            return
        width = max(1, math.prod(self.shape[1:]))
        step = max(1, BLOCK // width)
        for first in range(0, self.rows, step):
            yield first, min(first + step, self.rows)


class Family:
    """Models with the same tensors, and their base if there is one."""

    def __init__(
        self,
        models: Sequence[Mapping[str, Stored]],
        base: Mapping[str, Stored] | None = None,
        *,
        seed: int = 0,
        probing: Probing | None = None,
    ) -> None:
        self.models, self.base, self.seed, self.probing = models, base, seed, probing
        self.facts: dict[str, float] = {}
        """What mergers have found out; the stage's headline has them."""
        self._known: dict[Any, Any] = {}
        self.reader = ThreadPoolExecutor(1)
        """Reads ahead. One thread for all tensors: each new one would keep memory of its own."""

    def stacks(self) -> Iterator[Stack]:
        """Yield the tensors of floating-point numbers, by name."""
        for name, stored in self.models[0].items():
            if stored.is_float:
                base = None if self.base is None else self.base[name]
                yield Stack(name, stored.shape, self, [model[name] for model in self.models], base)

    def others(self) -> Iterator[tuple[str, Stored]]:
        """Yield the tensors that are kept as they are; raise InputError for one that differs among the models."""
        for name, stored in self.models[0].items():
            if stored.is_float:
                continue
            for other in (*self.models[1:], *([self.base] if self.base else [])):
                if stored_bytes(stored) != stored_bytes(other[name]):
                    raise InputError(f"{name} has whole numbers ({stored.dtype}) that differ among the models")
            yield name, stored

    def once(self, key: Any, compute: Callable[[], Any]) -> Any:
        """Return what `compute` returned for this key the first time: for what mergers need of whole models."""
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]

    def read(self, stored: Stored, first: int, last: int) -> Tensor:
        """Return rows of a tensor as float32."""
        width = math.prod(stored.shape[1:])
        raw = stored_bytes(stored, first * width, last * width)
        shape = (last - first, *stored.shape[1:]) if stored.shape else ()
        return torch.frombuffer(raw, dtype=DTYPES[stored.dtype]).float().view(shape) if raw else torch.empty(shape)


def stored_bytes(stored: Stored, first: int = 0, last: int | None = None) -> bytearray:
    """Return the bytes of some of a tensor's numbers. They are read: pages of a mapping count as memory in use."""
    count = (stored.count if last is None else last) - first
    buffer = bytearray(count * stored.item_bytes)
    with stored.path.open("rb", buffering=0) as stream:
        stream.seek(stored.begin + first * stored.item_bytes)
        view = memoryview(buffer)
        while view:
            read = stream.readinto(view)
            if not read:
                raise InputError(f"{stored.path} ends within a tensor")
            view = view[read:]
    return buffer


def _kept_from(stacks: Sequence[Stack], model: int, share: float) -> float:
    count = sum(math.prod(stack.shape) for stack in stacks)
    kept = round(share * count)
    if kept >= count:
        return 0.0
    return kth_largest(lambda: (part.abs() for stack in stacks for part in stack.deltas(model)), max(1, kept))
