"""Train for some steps in one process, and compare the peak of memory with its estimate.

python -m tests.gpu.training_memory WAY FILE      WAY: torch, recompute, lora, zero-1, zero-2 or zero-3
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from components.contract.job import Resources
from components.contract.memory import GIB, MemoryEstimate, MemoryKind
from components.modeling.estimates.memory_needs import CUDA_CONTEXT
from components.modeling.estimates.supervised_memory import supervised_memory
from components.modeling.models.lora import LoraConfig
from components.modeling.native.adapters import add_adapters
from components.modeling.supervised.trainer import fit
from components.sft.params import SftParams
from tests.gpu.device import ON_GPU, free_memory, peak_memory, sized
from tests.gpu.models import qwen, random_policy, sizes_of
from tests.gpu.supervised import Losses, examples

CLOSE_TO_ESTIMATE = 0.15
STEPS = 3
LENGTH, PASS = sized(2048, 24), sized(8192, 96)
ON_ONE = {"gpus": 1, "gpu_memory_gib": 80.0} if ON_GPU else {}
WAYS: dict[str, dict[str, Any]] = {
    "torch": {},
    "recompute": {"recompute": True},
    "lora": {},
    **{f"zero-{stage}": {"trainer": "deepspeed", "zero_stage": stage} for stage in (1, 2, 3)},
}


def params(way: str) -> SftParams:
    """Return the settings of the training."""
    return SftParams(
        steps=STEPS,
        batch_size=8,
        max_tokens=LENGTH,
        micro_batch_tokens=PASS,
        dtype="bfloat16",
        checkpoint_every=0,
        lora=LoraConfig(rank=16) if way == "lora" else None,
    )


def estimate(way: str) -> MemoryEstimate:
    """Return what `posttrain plan` estimates."""
    found = supervised_memory(params(way), sizes_of(qwen("0.5B")), Resources(**ON_ONE, **WAYS[way]))
    assert found is not None
    return found


def compare(way: str) -> dict[str, Any]:
    """Train; return losses, the peak of tensors' memory and its estimate, in GiB, without the driver's share."""
    free_memory()
    policy = random_policy(qwen("0.5B"))
    if (lora := params(way).lora) is not None:
        add_adapters(policy.module, lora)
    rows, hooks = examples(64, policy.vocab_size, longest=LENGTH), Losses()
    fit(policy, rows, params(way), hooks, seed=0, backends=Resources(**ON_ONE, **WAYS[way]))
    expected = estimate(way)
    place = MemoryKind.GPU if ON_GPU else MemoryKind.NODE
    return {
        "losses": hooks.losses,
        "peak": peak_memory() / GIB,
        "estimate": (expected.bytes(place) - (CUDA_CONTEXT if ON_GPU else 0.0)) / GIB,
        "parts": expected.parts_in_words(place),
    }


def main() -> None:
    """Compare, in a process group of one."""
    way, path = sys.argv[1], Path(sys.argv[2])
    os.environ.setdefault("LOCAL_RANK", "0")  # which a launcher sets
    if way.startswith("zero"):
        with tempfile.NamedTemporaryFile(delete=False) as meeting:
            backend = "cpu:gloo,cuda:nccl" if ON_GPU else "gloo"
            torch.distributed.init_process_group(backend, init_method=f"file://{meeting.name}", rank=0, world_size=1)
    path.write_text(json.dumps(compare(way)))
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
