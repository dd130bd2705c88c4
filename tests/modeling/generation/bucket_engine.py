"""What engines without vLLM share: the weights that came, read from the stage's memory as vLLM's workers read them."""

from __future__ import annotations

import torch
from torch import Tensor

from components.modeling.generation.engine.engine import InTurn
from components.modeling.generation.engine.frames import Header


class BucketEngine(InTurn):
    """Collects weights by name; knows the host's memory only, and refuses any other way."""

    def __init__(self) -> None:
        super().__init__()
        self.weights: dict[str, Tensor] = {}
        self.buckets: list[list[str]] = []
        """Names of what came together."""

    def connect(self, settings: Header) -> None:
        """Take shared memory only."""
        if settings["way"] != "shared_memory":
            raise RuntimeError(f"no {settings['way']} here")

    def begin(self) -> None:
        """Forget the weights before."""
        self.weights, self.buckets = {}, []

    def take(self, bucket: Header) -> None:
        """Copy the tensors of a bucket."""
        mapped = torch.from_file(bucket["path"], shared=True, size=bucket["size"], dtype=torch.uint8)
        at, dtype = 0, getattr(torch, bucket["dtype"])
        for name, shape in zip(bucket["names"], bucket["shapes"], strict=True):
            end = at + torch.Size(shape).numel() * dtype.itemsize
            self.weights[name] = mapped[at:end].view(dtype).view(shape).clone()
            at = end
        self.buckets.append(bucket["names"])

    def end(self) -> None:
        """Have them."""

    def rest(self) -> Header:
        """Keep them."""
        return {}
