"""NCCL's functions by gloo, so that both ends of a broadcast run without a GPU; and an engine at the other end."""

from __future__ import annotations

import socket
from base64 import b64decode
from collections.abc import Sequence
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.distributed import BroadcastOptions, ProcessGroupGloo, TCPStore

from components.modeling.generation.engine.frames import Header
from tests.modeling.generation.transfer.telling_engine import TellingEngine

PATIENCE = timedelta(seconds=60)


class GlooNccl:
    """The functions of torch.cuda.nccl that the stage calls."""

    @staticmethod
    def unique_id() -> bytes:
        """Return where the group meets."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            return str(free.getsockname()[1]).encode()

    @staticmethod
    def init_rank(count: int, identity: bytes, rank: int) -> ProcessGroupGloo:
        """Enter the group."""
        store = TCPStore("127.0.0.1", int(identity), count, rank == 0, timeout=PATIENCE)
        return ProcessGroupGloo(store, rank, count, PATIENCE)

    @staticmethod
    def all_reduce(tensors: Sequence[Tensor], *, comms: Sequence[ProcessGroupGloo]) -> None:
        """Add up."""
        comms[0].allreduce(list(tensors)).wait()

    @staticmethod
    def broadcast(tensors: Sequence[Tensor], *, comms: Sequence[ProcessGroupGloo]) -> None:
        """Send to all, or receive from rank 0."""
        options = BroadcastOptions()
        options.rootRank = 0
        comms[0].broadcast(list(tensors), options).wait()

    @classmethod
    def take_over(cls, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put it in the place of NCCL, without the GPU that NCCL asks for."""
        monkeypatch.setattr(torch.cuda, "nccl", cls)
        monkeypatch.setattr(torch.cuda, "device", lambda device: nullcontext())
        monkeypatch.setattr(torch.cuda, "synchronize", lambda device=None: None)


class GroupEngine(TellingEngine):
    """Says that it has the GPU after the trainer's, and receives weights by broadcast alone."""

    def start(self, folder: str, options: dict[str, Any]) -> Header:
        """Name the GPU."""
        return {**super().start(folder, options), "gpus": ["GPU-1"]}

    def connect(self, settings: Header) -> None:
        """Enter the group of the stage, as vLLM's worker does."""
        if settings["way"] != "nccl":
            raise RuntimeError(f"no {settings['way']} here")
        self._group = GlooNccl.init_rank(settings["world_size"], b64decode(settings["identity"]), 1)
        GlooNccl.all_reduce([torch.zeros(1)], comms=[self._group])

    def take(self, bucket: Header) -> None:
        """Receive a bucket, and split it."""
        buffer, at, dtype = torch.empty(bucket["size"], dtype=torch.uint8), 0, getattr(torch, bucket["dtype"])
        GlooNccl.broadcast([buffer], comms=[self._group])
        for name, shape in zip(bucket["names"], bucket["shapes"], strict=True):
            end = at + torch.Size(shape).numel() * dtype.itemsize
            self.weights[name] = buffer[at:end].view(dtype).view(shape)
            at = end
        self.buckets.append(bucket["names"])
