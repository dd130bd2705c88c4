"""Weights by NCCL, for engines on other GPUs than the trainer's: one broadcast for each bucket."""

from __future__ import annotations

import threading
from base64 import b64encode
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from components.modeling.generation.engine.engine_process import EngineFailed, EngineProcess
from components.modeling.generation.engine.transfer.bucket import buckets
from components.modeling.generation.engine.transfer.carrier import DOING, Carrier


class Nccl(Carrier):
    """The trainer is rank 0 of a group of its own with the engine's workers, apart from the group that trains."""

    way = "nccl"
    says = "NCCL"

    def __init__(self, device: torch.device, workers: int) -> None:
        self._device, self._workers = device, workers
        self._group: Any = None

    def connect(self, engine: EngineProcess) -> None:
        """Open the group; both sides must enter at once."""
        from torch.cuda import nccl

        identity, count = nccl.unique_id(), self._workers + 1
        opened: list[Any] = []

        def enter() -> None:
            with torch.cuda.device(self._device):
                opened.append(nccl.init_rank(count, identity, 0))
                # vLLM's workers begin with the sum of one number.
                first = torch.zeros(1, device=self._device)
                nccl.all_reduce([first], comms=opened)
                torch.cuda.synchronize(self._device)

        # On a thread: where the engine refuses, this side would wait for it for ever.
        entering = threading.Thread(target=enter, daemon=True)
        entering.start()
        engine.call("connect", DOING, way=self.way, identity=b64encode(identity).decode(), world_size=count)
        entering.join()
        if not opened:
            raise EngineFailed("NCCL could not open a group with the engine; NCCL_DEBUG=INFO tells why")
        self._group = opened[0]

    def carry(self, engine: EngineProcess, weights: Iterable[tuple[str, Tensor]]) -> int:
        """Broadcast one bucket after the other while the engine receives it."""
        from torch.cuda import nccl

        room, total = torch.empty(0, dtype=torch.uint8, device=self._device), 0

        def of(size: int) -> Tensor:
            nonlocal room
            if size > room.numel():
                room = torch.empty(size, dtype=torch.uint8, device=self._device)
            return room

        with torch.cuda.device(self._device):
            for bucket in buckets(weights, of):
                engine.send("take", DOING, size=bucket.size, **bucket.header)
                nccl.broadcast([bucket.buffer[: bucket.size]], comms=[self._group])
                engine.reply(DOING)
                total += bucket.size
        return total

    def close(self) -> None:
        """Leave the group."""
        self._group = None
