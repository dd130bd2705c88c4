"""An engine's GPUs, its share of their memory, and how many of them its model can be split over."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from components.contract.errors import InputError

VISIBLE = "CUDA_VISIBLE_DEVICES"
MEMORY_SHARE = "POSTTRAIN_VLLM_GPU_MEMORY"
"""Share of each GPU's memory that vLLM may take while it is awake."""
SHARED, ALONE = "0.5", "0.9"
"""Its default: half where the rest is for the trainer, and vLLM's own where no trainer is."""


def tensor_parallel_size(gpus: int, *, heads: int, kv_heads: int, mlp_width: int) -> int:
    """Return the most GPUs, up to `gpus`, that a decoder can be split over: vLLM cuts between heads."""

    def divides(size: int) -> bool:
        shared = kv_heads % size == 0 or size % kv_heads == 0
        return heads % size == 0 and mlp_width % size == 0 and shared

    return max(size for size in range(1, gpus + 1) if divides(size))


def gpus_apart(split: Callable[[int], int], *, node: int, processes: int) -> int:
    """Return how many GPUs each process's engine has that train no model; 0 where it needs those that do.

    Of a node's GPUs each process trains on one, the first ones. `split` returns over how many of so many GPUs vLLM
    splits the model: an engine moves to the others where it loses none by that.
    """
    spare = (node - processes) // processes
    return spare if spare > 0 and split(spare) == split(node // processes) else 0


def gpu_memory_share(environ: Mapping[str, str] = os.environ, *, alone: bool = False) -> float:
    """Return the share of each GPU's memory that vLLM may take, `alone` or beside a trainer.

    Raises InputError for an invalid share.
    """
    given = environ.get(MEMORY_SHARE, ALONE if alone else SHARED)
    try:
        share = float(given)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise InputError(f"{MEMORY_SHARE} is {given!r}; set a share of each GPU's memory, such as 0.5")
    return share


def own_gpus(count: int, environ: Mapping[str, str] = os.environ, *, ranks: int = 1, first: int = 0) -> str:
    """Return the GPUs of this rank as CUDA_VISIBLE_DEVICES: a contiguous slice of the node's visible ones.

    `count` GPUs are those of `ranks` neighbouring ones together; slices begin at the one numbered `first`. Raises
    InputError when too few are visible.
    """
    rank = int(environ.get("LOCAL_RANK", "0")) // ranks
    wanted = range(first + rank * count, first + (rank + 1) * count)
    if VISIBLE not in environ:
        return ",".join(map(str, wanted))
    visible = [name.strip() for name in environ[VISIBLE].split(",") if name.strip()]
    if wanted.stop > len(visible):
        raise InputError(
            f"process {rank} of this node needs GPUs {wanted.start} to {wanted.stop - 1} of those in {VISIBLE}, which "
            f"has {len(visible)}; set backend.processes to fewer, or give the job more GPUs"
        )
    return ",".join(visible[index] for index in wanted)
