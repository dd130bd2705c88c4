"""Chains of operators on large tensors, compiled into one kernel by Triton where that helps: on CUDA.

On a CPU nothing is compiled: the compiler's start costs more than the chains do. What cannot be compiled runs as it is
written. Functions are compiled without their gradients; those who need them write both passes.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

WORTH_COMPILING = 1 << 20
"""Elements from which a chain is bound by memory traffic, and not by the launch of its kernels."""


class Compiled:
    """A function of tensors, plain for small first arguments and away from CUDA."""

    def __init__(self, plain: Callable[..., Any]) -> None:
        functools.update_wrapper(self, plain)
        self.plain = plain
        self._kernel: Callable[..., Any] | None = None
        self._fails = False

    def __call__(self, first: Tensor, *others: Any) -> Any:
        """Return what the plain function returns, to rounding."""
        if self._fails or not is_worth_compiling(first):
            return self.plain(first, *others)
        if self._kernel is None:
            self._kernel = torch.compile(self.plain, dynamic=True, fullgraph=True)
        try:
            return self._kernel(first, *others)
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as error:  # whatever a compiler and its toolchain raise
            self._fails = True
            name = getattr(self.plain, "__name__", "a function")
            reason = "".join(str(error).strip().splitlines()[:1])
            warnings.warn(f"{name} does not compile here ({type(error).__name__}: {reason}): slower", stacklevel=2)
            return self.plain(first, *others)


def is_worth_compiling(tensor: Tensor) -> bool:
    """Return whether a chain of operators on this tensor goes through a compiled kernel, in float32."""
    large = tensor.device.type == "cuda" and tensor.numel() >= WORTH_COMPILING
    return large and tensor.dtype != torch.float64 and has_triton()


@functools.cache
def has_triton() -> bool:
    """Return whether torch finds Triton and a GPU for it."""
    from torch.utils._triton import has_triton as found

    return found()
