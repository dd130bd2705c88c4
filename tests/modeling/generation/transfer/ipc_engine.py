"""An engine with torch alone that reads buckets from GPU memory of the stage, by the handles that vLLM gets."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import torch
from torch import Tensor

from components.modeling.generation.engine.frames import Header
from tests.modeling.generation.transfer.telling_engine import TellingEngine


class IpcEngine(TellingEngine):
    """Is on the first GPU."""

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Name the GPU."""
        self._shared: tuple[str, Tensor] | None = None
        return {**super().start(folder, options), "gpus": [self._uuid()]}

    def connect(self, settings: Header) -> None:
        """Open what the stage shares, or take its memory on the host."""
        if settings["way"] != "cuda_ipc":
            raise RuntimeError(f"no {settings['way']} here")
        self._open(settings["handles"])
        self._shared = None

    def take(self, bucket: Header) -> None:
        """Copy the tensors of a bucket to the host."""
        buffer, at, dtype = self._open(bucket["handles"]), 0, getattr(torch, bucket["dtype"])
        for name, shape in zip(bucket["names"], bucket["shapes"], strict=True):
            end = at + torch.Size(shape).numel() * dtype.itemsize
            self.weights[name] = buffer[at:end].view(dtype).view(shape).cpu()
            at = end
        self.buckets.append(bucket["names"])

    def end(self) -> None:
        """Let go of the stage's buffer."""
        self._shared = None
        super().end()

    def _open(self, handles: dict[str, list[Any]]) -> Tensor:
        """Return the stage's buffer; each export is opened once."""
        from torch.multiprocessing.reductions import rebuild_cuda_tensor

        values = [b64decode(one["base64"]) if isinstance(one, dict) else one for one in handles[self._uuid()]]
        key = repr(values)
        if self._shared is None or self._shared[0] != key:
            handle, size, offset, counter, counter_offset, event, synchronize = values
            kinds = (torch.Tensor, torch.Size([size]), (1,), 0, torch.storage.TypedStorage, torch.uint8, 0)
            shared = (handle, size, offset, False, counter, counter_offset, event, synchronize)
            self._shared = key, rebuild_cuda_tensor(*kinds, *shared)
        return self._shared[1]

    @staticmethod
    def _uuid() -> str:
        return str(torch.cuda.get_device_properties(0).uuid)
