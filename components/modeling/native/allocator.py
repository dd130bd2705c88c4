"""The C allocator's and the kernel's settings for tensor work on the CPU."""

from __future__ import annotations

import ctypes
import functools
import mmap
import sys

from torch import Tensor

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25
_HUGE = 2 << 20
_LARGEST_ACCEPTED_MMAP_THRESHOLD = 32 << 20


@functools.cache
def keep_freed_blocks() -> bool:
    """Let glibc reuse freed tensor memory instead of returning it to the system; return whether it agreed.

    By default every tensor of more than 128 KiB is a fresh mapping whose pages fault one by one, which costs
    small models a quarter of their speed. Does nothing without glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    try:
        mallopt = libc.mallopt
    except AttributeError:  # musl has none
        return False
    agreed = mallopt(_M_MMAP_THRESHOLD, _LARGEST_ACCEPTED_MMAP_THRESHOLD)
    return bool(agreed and mallopt(_M_TRIM_THRESHOLD, 1 << 30))


def back_with_huge_pages(*tensors: Tensor) -> None:
    """Ask Linux to keep these tensors in pages of 2 MiB, so that scattered reads miss the TLB less often.

    Best effort: nothing changes where the kernel does not support it (before 6.1) or refuses. Memory that the
    allocator reuses already has small pages; these are collapsed.
    """
    if not sys.platform.startswith("linux"):
        return
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for tensor in tensors:
        start = -(-tensor.data_ptr() // mmap.PAGESIZE) * mmap.PAGESIZE
        size = tensor.data_ptr() + tensor.nbytes - start
        if size >= 2 * _HUGE:
            madvise(start, size, _MADV_HUGEPAGE)
            madvise(start, size, _MADV_COLLAPSE)
