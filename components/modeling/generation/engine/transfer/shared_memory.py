"""Weights through memory that the host shares: for engines on a CPU, and on GPUs that the trainer cannot reach."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
from torch import Tensor

from components.modeling.generation.engine.engine_process import EngineProcess
from components.modeling.generation.engine.transfer.bucket import buckets
from components.modeling.generation.engine.transfer.carrier import DOING, Carrier


class SharedMemory(Carrier):
    """Two buffers in turn: one is filled while the engine reads the other.

    They are files without a name in memory, which end with this process, however that ends, and need no room in
    /dev/shm. The engine, a process of the same user, opens them by the number of their descriptor.
    """

    way = "shared_memory"
    says = "shared memory"

    def __init__(self) -> None:
        self._rooms = (_Room(), _Room())

    def connect(self, engine: EngineProcess) -> None:
        """Do nothing but name the way."""
        engine.call("connect", DOING, way=self.way)

    def carry(self, engine: EngineProcess, weights: Iterable[tuple[str, Tensor]]) -> int:
        """Fill one buffer while the engine reads the other."""
        turn, total, waiting = 0, 0, False

        def room(size: int) -> Tensor:
            return self._rooms[turn].of(size)

        for bucket in buckets(weights, room):
            if waiting:
                engine.reply(DOING)
            engine.send("take", DOING, path=self._rooms[turn].path, size=bucket.size, **bucket.header)
            turn, total, waiting = 1 - turn, total + bucket.size, True
        if waiting:
            engine.reply(DOING)
        return total

    def close(self) -> None:
        """Give the memory back."""
        for room in self._rooms:
            room.close()


class _Room:
    """A growing buffer in a file without a name."""

    def __init__(self) -> None:
        self._file = -1
        self._buffer = torch.empty(0, dtype=torch.uint8)

    @property
    def path(self) -> str:
        """Where another process of this user opens it."""
        return f"/proc/{os.getpid()}/fd/{self._file}"

    def of(self, size: int) -> Tensor:
        """Return the buffer, of at least `size` bytes; memory is taken as it is written to."""
        if self._file < 0:
            self._file = os.memfd_create("posttrain-weights")
        if size > self._buffer.numel():
            os.ftruncate(self._file, size)
            self._buffer = torch.from_file(self.path, shared=True, size=size, dtype=torch.uint8)
        return self._buffer

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
        self._file, self._buffer = -1, torch.empty(0, dtype=torch.uint8)
