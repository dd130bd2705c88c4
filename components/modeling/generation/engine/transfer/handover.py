"""Handover: gives an engine the weights of now by the fastest way that works, and measures how long that takes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch

from components.contract.terminal import print_error
from components.modeling.generation.engine.engine_process import EngineFailed, EngineProcess, EngineStuck
from components.modeling.generation.engine.transfer.carrier import DOING, Carrier
from components.modeling.generation.engine.transfer.cuda_ipc import CudaIpc, gpu_uuid
from components.modeling.generation.engine.transfer.nccl import Nccl
from components.modeling.generation.engine.transfer.shared_memory import SharedMemory
from components.modeling.models.policy import Gather, Policy, held


class Given(NamedTuple):
    """One handover of all weights."""

    way: str
    seconds: float
    size: int
    """Bytes."""


class Handover:
    """The way to one engine after another."""

    def __init__(self) -> None:
        self.given: list[Given] = []
        """All handovers so far."""
        self._carrier: Carrier | None = None
        self._told = False

    def connect(self, engine: EngineProcess, device: torch.device, gpus: Sequence[str]) -> None:
        """Choose the way to an engine that has started; `gpus` are the UUIDs of its GPUs, none on a CPU.

        One that fails is named, and the next one is taken. Raises EngineFailed where none works.
        """
        self.close()
        *faster, last = ways(device, gpus)
        for carrier in faster:
            try:
                carrier.connect(engine)
            except EngineStuck:
                raise
            except EngineFailed as error:
                print_error(f"weights cannot go to the engine by {carrier.says}: {error}\nthey go by {last.says}")
                continue
            self._carrier = carrier
            return
        last.connect(engine)
        self._carrier = last

    def give(self, engine: EngineProcess, policy: Policy, gather: Gather = held) -> None:
        """Give the engine all weights of a policy.

        With a `gather` that is a collective, all of them are gathered even if the engine fails on the way: the other
        ranks would wait for this one.
        """
        carrier = self._carrier
        assert carrier is not None
        began, weights = time.perf_counter(), policy.named_weights(gather)
        try:
            engine.call("begin", DOING)
            size = carrier.carry(engine, weights)
            engine.call("end", DOING)
        except EngineFailed:
            if gather is not held:
                for _ in weights:
                    pass
            raise
        finally:
            carrier.finish()
        self.given.append(Given(carrier.way, time.perf_counter() - began, size))
        if not self._told:
            self._told = True
            print_error(
                f"weights go to the engine by {carrier.says}: {size / 1e9:.3g} GB in {self.given[-1].seconds:.2g} s"
            )

    def close(self) -> None:
        """Let go of the way to the engine."""
        if self._carrier is not None:
            self._carrier.close()
            self._carrier = None


def ways(device: torch.device, gpus: Sequence[str]) -> Iterator[Carrier]:
    """Yield the ways from weights on a device to an engine's GPUs, by their UUIDs: the fastest first.

    From a GPU that the engine has, too: by the memory of that GPU, and of others that this process sees. To an engine
    that has other GPUs: by NCCL, which refuses two ranks on one GPU. The host's memory works everywhere.
    """
    if device.type == "cuda" and gpus:
        seen = {gpu_uuid(one): one for one in (torch.device("cuda", at) for at in range(torch.cuda.device_count()))}
        own = gpu_uuid(device)
        if own not in gpus:
            yield Nccl(device, len(gpus))
        elif set(gpus) <= set(seen):
            yield CudaIpc(device, [seen[uuid] for uuid in gpus if uuid != own])
    yield SharedMemory()


def timings(given: Sequence[Given]) -> dict[str, float]:
    """Return the mean seconds of a handover, and how many went by each way; empty if there were none."""
    if not given:
        return {}
    found = {"weight_sync_seconds": sum(one.seconds for one in given) / len(given)}
    for one in given:
        name = f"weight_syncs_by_{one.way}"
        found[name] = found.get(name, 0.0) + 1.0
    return found
