"""vLLM's workers: an extension that names their GPUs, and the receiver of weights, which vLLM makes by its name.

vLLM imports this module in each of its worker processes, before a worker loads its model.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from vllm.distributed.weight_transfer import WeightTransferEngineFactory
from vllm.distributed.weight_transfer.base import (
    WeightTransferEngine,
    WeightTransferInitInfo,
    WeightTransferUpdateInfo,
)
from vllm.platforms import current_platform

from components.modeling.generation.engine.vllm_engine import RECEIVER


class Worker:
    """Extension of a vLLM worker."""

    device: torch.device

    def posttrain_gpu(self) -> str | None:
        """Return the UUID of the worker's GPU; None on a CPU."""
        return str(torch.cuda.get_device_properties(self.device).uuid) if self.device.type == "cuda" else None


@dataclass
class Way(WeightTransferInitInfo):
    """How buckets come; see components/modeling/generation/engine/transfer."""

    way: str
    handles: dict[str, list[Any]] = field(default_factory=dict)
    identity: str = ""
    world_size: int = 0


@dataclass
class Bucket(WeightTransferUpdateInfo):
    """What a bucket holds, and where it is."""

    names: list[str]
    shapes: list[list[int]]
    dtype: str
    size: int
    path: str = ""
    handles: dict[str, list[Any]] = field(default_factory=dict)

    def sizes(self) -> list[int]:
        """Return the bytes of each tensor."""
        width = getattr(torch, self.dtype).itemsize
        return [torch.Size(shape).numel() * width for shape in self.shapes]

    def split(self, buffer: Tensor) -> Iterator[tuple[str, Tensor]]:
        """Yield the tensors of a buffer [size] of bytes with their names, as views."""
        dtype = getattr(torch, self.dtype)
        for name, shape, part in zip(self.names, self.shapes, buffer.split(self.sizes()), strict=True):
            yield name, part.view(dtype).view(shape)


class Receiver(WeightTransferEngine[Way, Bucket]):
    """Loads buckets into a worker's model, layer by layer, as vLLM's own receivers do.

    vLLM keeps the tensors of a layer until it has all of them, and a buffer is filled again before: so each tensor is
    copied out of it.
    """

    init_info_cls = Way
    update_info_cls = Bucket

    def init_transfer_engine(self, init_info: Way) -> None:
        """Open the way."""
        self.shutdown()
        self._source = SOURCES[init_info.way](init_info, self)

    def start_weight_update(self) -> None:
        """Prepare the model's layers."""
        from vllm.model_executor.model_loader.reload import initialize_layerwise_reload

        initialize_layerwise_reload(self.model)

    def update_weights(self, update_info: dict[str, Any]) -> None:
        """Load one bucket; when this returns, its buffer may be filled again."""
        self.receive_weights(self.parse_update_info(update_info))
        if not current_platform.is_cpu():
            torch.accelerator.synchronize()

    def receive_weights(self, update_info: Bucket) -> None:
        """Load one bucket."""
        from vllm.model_executor.model_loader.mtp_validation import disable_mtp_completeness_check

        with disable_mtp_completeness_check():
            self.model.load_weights(self._source.tensors(update_info))

    def finish_weight_update(self) -> None:
        """Bring the layers into the form that they compute with."""
        from vllm.model_executor.model_loader.reload import finalize_layerwise_reload

        finalize_layerwise_reload(self.model, self.model_config)
        self._source.release()
        head = getattr(self.model, "lm_head", None)
        if head is not None and current_platform.is_cpu():
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            # The CPU build multiplies by a packed copy of the output matrix; a reload does not update that copy when
            # the embedding is tied to it.
            dispatch_cpu_unquantized_gemm(head, remove_weight=False)

    def shutdown(self) -> None:
        """Let go of the way."""
        if (source := getattr(self, "_source", None)) is not None:
            source.close()


class SharedMemory:
    """Buckets in the host's memory."""

    def __init__(self, way: Way, receiver: Receiver) -> None:
        self._mapped: dict[str, Tensor] = {}

    def tensors(self, bucket: Bucket) -> Iterator[tuple[str, Tensor]]:
        """Yield copies of a bucket's tensors, on the host."""
        mapped = self._mapped.get(bucket.path)
        if mapped is None or mapped.numel() < bucket.size:
            mapped = torch.from_file(bucket.path, shared=True, size=bucket.size, dtype=torch.uint8)
            self._mapped[bucket.path] = mapped
        return ((name, tensor.clone()) for name, tensor in bucket.split(mapped[: bucket.size]))

    def release(self) -> None:
        """Keep the memory mapped for the next transfer."""

    def close(self) -> None:
        """Let go of the memory."""
        self._mapped.clear()


class CudaIpc:
    """Buckets in the memory of this worker's GPU, in a buffer of the trainer's."""

    def __init__(self, way: Way, receiver: Receiver) -> None:
        from vllm.distributed.weight_transfer.packed_tensor import PackedBufferImporter

        self._device = receiver.device
        self._importer = PackedBufferImporter()
        self._open(way.handles)
        self.release()

    def _open(self, handles: dict[str, list[Any]]) -> Tensor:
        """Return the trainer's buffer; raise ValueError if it has none on this GPU."""
        uuid = str(torch.cuda.get_device_properties(self._device).uuid)
        if uuid not in handles:
            raise ValueError(f"the trainer has no buffer on GPU {uuid}, only on {', '.join(handles)}")
        handle, size, offset, counter, counter_offset, event, synchronize = map(_bytes, handles[uuid])
        kinds = (torch.Tensor, torch.Size([size]), (1,), 0, torch.storage.TypedStorage, torch.uint8)
        shared = (handle, size, offset, False, counter, counter_offset, event, synchronize)
        return self._importer.rebuild([*kinds, self._device.index, *shared])

    def tensors(self, bucket: Bucket) -> Iterator[tuple[str, Tensor]]:
        """Yield copies of a bucket's tensors, on the GPU."""
        buffer = self._open(bucket.handles)[: bucket.size]
        return ((name, tensor.clone()) for name, tensor in bucket.split(buffer))

    def release(self) -> None:
        """Let go of the buffer, so that the trainer can free it."""
        self._importer.close()

    close = release


class Nccl:
    """Buckets that the trainer, rank 0 of a group with all workers, broadcasts."""

    def __init__(self, way: Way, receiver: Receiver) -> None:
        from vllm.distributed.weight_transfer.nccl_common import NCCLWeightTransferInitInfo, worker_init_process_group

        self._device = receiver.device
        info = NCCLWeightTransferInitInfo(
            rank_offset=1, world_size=way.world_size, nccl_unique_id_b64=way.identity, packed=True
        )
        self._group = worker_init_process_group(info, receiver.parallel_config)

    def tensors(self, bucket: Bucket) -> Iterator[tuple[str, Tensor]]:
        """Receive a bucket, and yield its tensors."""
        buffer = torch.empty(bucket.size, dtype=torch.uint8, device=self._device)
        self._group.broadcast(buffer, src=0, stream=torch.cuda.current_stream())
        return bucket.split(buffer)

    def release(self) -> None:
        """Hold nothing."""

    def close(self) -> None:
        """Leave the group."""
        self._group.destroy()


SOURCES = {"shared_memory": SharedMemory, "cuda_ipc": CudaIpc, "nccl": Nccl}


def _bytes(value: Any) -> Any:
    """Undo how the trainer writes bytes in a message."""
    return b64decode(value["base64"]) if isinstance(value, dict) else value


WeightTransferEngineFactory.register_engine(RECEIVER, Receiver)
