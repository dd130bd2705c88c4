"""What test_several_gpus.py runs on each GPU: how fast an all-reduce is.

python -m torch.distributed.run --nproc-per-node N -m tests.gpu.several FILE
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import torch
from torch import distributed

SIZE, TRIES = 1 << 30, 10


def main() -> None:
    """Time all-reduces of a GiB; the first rank writes the bus bandwidth, as NCCL's own tests count it."""
    distributed.init_process_group("nccl")
    rank, world = distributed.get_rank(), distributed.get_world_size()
    torch.cuda.set_device(rank)
    buffer = torch.ones(SIZE // 2, dtype=torch.bfloat16, device="cuda")
    for _ in range(3):
        distributed.all_reduce(buffer)
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(TRIES):
        distributed.all_reduce(buffer)
    torch.cuda.synchronize()
    seconds = (time.perf_counter() - began) / TRIES
    if rank == 0:
        Path(sys.argv[1]).write_text(
            json.dumps({"gigabytes_per_second": SIZE / 1e9 / seconds * 2 * (world - 1) / world})
        )
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
