"""Weights from GPU memory to GPU memory of another process on the same GPUs (CUDA's inter-process handles).

The bytes never leave the GPU: the engine maps the trainer's buffer and copies from it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from components.modeling.generation.engine.engine_process import EngineProcess
from components.modeling.generation.engine.transfer.bucket import Bucket, buckets
from components.modeling.generation.engine.transfer.carrier import DOING, Carrier

SHARED = (7, 8, 9, 11, 12, 13, 14)
"""Places of the values that differ from buffer to buffer among the arguments of torch's `rebuild_cuda_tensor`."""


class CudaIpc(Carrier):
    """One buffer on each of the engine's GPUs, for the time of one transfer.

    An export of memory counts how often it is opened and let go: each buffer is exported once and opened once, as
    vLLM's receiver expects.
    """

    way = "cuda_ipc"
    says = "CUDA IPC"

    def __init__(self, device: torch.device, others: Sequence[torch.device]) -> None:
        """`device` has the weights; `others` are the engine's GPUs but this one."""
        self._rooms = _Exported([device, *others])

    def connect(self, engine: EngineProcess) -> None:
        """Let the engine open a small buffer, which fails where processes may not share GPU memory."""
        self._rooms.of(1 << 20)
        try:
            engine.call("connect", DOING, way=self.way, handles=self._rooms.handles)
        finally:
            self.finish()

    def carry(self, engine: EngineProcess, weights: Iterable[tuple[str, Tensor]]) -> int:
        """Give the engine one bucket after the other, each in the same buffer."""
        total = 0
        for bucket in buckets(weights, self._rooms.of):
            self._rooms.spread(bucket)
            engine.call("take", DOING, size=bucket.size, handles=self._rooms.handles, **bucket.header)
            total += bucket.size
        return total

    def finish(self) -> None:
        """Free the buffers."""
        self._rooms.free()


class _Exported:
    """Buffers of one size on several GPUs, and the handles by which another process opens them."""

    def __init__(self, devices: Sequence[torch.device]) -> None:
        self._devices, self._buffers = devices, [torch.empty(0)]
        self.handles: dict[str, list[Any]] = {}
        """By the UUID of each GPU."""

    def of(self, size: int) -> Tensor:
        """Return the buffer on the first GPU, of at least `size` bytes."""
        from torch.multiprocessing.reductions import reduce_tensor

        if size > self._buffers[0].numel():
            self._buffers = [torch.empty(size, dtype=torch.uint8, device=device) for device in self._devices]
            self.handles = {}
            for device, buffer in zip(self._devices, self._buffers, strict=True):
                _, arguments = reduce_tensor(buffer)
                self.handles[gpu_uuid(device)] = [_plain(arguments[place]) for place in SHARED]
        return self._buffers[0]

    def spread(self, bucket: Bucket) -> None:
        """Copy the bucket to the other GPUs, and wait until all copies are there."""
        for buffer in self._buffers[1:]:
            buffer[: bucket.size].copy_(bucket.buffer[: bucket.size], non_blocking=True)
        for device in self._devices:
            torch.cuda.synchronize(device)

    def free(self) -> None:
        """Let go of the buffers, which the other process has let go of."""
        self._buffers, self.handles = [torch.empty(0)], {}
        torch.cuda.ipc_collect()


def gpu_uuid(device: torch.device) -> str:
    """Return the UUID of a GPU, which is the same in all processes."""
    return str(torch.cuda.get_device_properties(device).uuid)


def _plain(value: object) -> object:
    """Return a number or truth value as it is, and bytes as text."""
    return {"base64": b64encode(value).decode()} if isinstance(value, bytes) else value
