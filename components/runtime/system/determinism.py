"""The deterministic mode of a job: the same bytes from the same job on a GPU, or one line that says why not.

On a CPU with a fixed number of threads torch repeats itself anyway. On a GPU sums by atomic additions, choices of
algorithms by timing, and sums over ranks in the order of their arrival do not; each of them has a switch.
Sources: PyTorch's notes on reproducibility; NCCL's environment variables; vLLM's batch invariance (0.32).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager

from components.contract.backends import Backends
from components.contract.errors import InputError

WORKSPACE = "CUBLAS_WORKSPACE_CONFIG"
WORKSPACES = (":4096:8", ":16:8")
"""Settings at which cuBLAS repeats itself, the faster one first."""
ENVIRONMENT = {
    "NCCL_ALGO": "Ring",  # sums in the order of the ring, whatever the size of a message
    "NCCL_NVLS_ENABLE": "0",  # sums in a switch have no order
    "NCCL_COLLNET_ENABLE": "0",
}
BATCH_INVARIANT = "VLLM_BATCH_INVARIANT"
_NO_KERNEL = re.compile(r"(\S+) does not have a deterministic implementation")


class NotDeterministic(InputError):
    """An operation has no kernel that repeats itself."""


def set_environment(backends: Backends, environ: MutableMapping[str, str] = os.environ) -> None:
    """Set what libraries read when they start; call it before anything uses a GPU.

    Raises InputError for a workspace of cuBLAS, set outside, that does not repeat.
    """
    if not backends.deterministic:
        return
    if environ.setdefault(WORKSPACE, WORKSPACES[0]) not in WORKSPACES:
        raise InputError(
            f"backend.deterministic: {WORKSPACE} is {environ[WORKSPACE]!r}, at which cuBLAS does not repeat itself; "
            f"set it to {WORKSPACES[0]}, or unset it"
        )
    environ.update(ENVIRONMENT)


@contextmanager
def deterministic_torch(backends: Backends) -> Iterator[None]:
    """Keep torch to deterministic algorithms inside; an operation that has none raises NotDeterministic.

    Memory that is not written is not filled, as torch would by default: nothing here reads it.
    """
    if not backends.deterministic:
        yield
        return
    import torch
    from torch.utils import deterministic

    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.backends.cudnn.deterministic,
        torch.backends.cudnn.benchmark,
        deterministic.fill_uninitialized_memory,
    )
    try:
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
        deterministic.fill_uninitialized_memory = False
        yield
    except RuntimeError as error:
        if found := _NO_KERNEL.search(str(error)):
            raise NotDeterministic(
                f"backend.deterministic: {found[1]} has no deterministic kernel here; take another operator, or a "
                "pool without GPUs, or leave `deterministic` out of this stage"
            ) from error
        raise
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = before[1:3]
        deterministic.fill_uninitialized_memory = before[3]
