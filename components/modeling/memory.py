"""The C allocator's settings for tensor work on the CPU."""

from __future__ import annotations

import ctypes
import functools
import sys

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_ACCEPTED_MMAP_THRESHOLD = 32 << 20


@functools.cache
def keep_freed_blocks() -> bool:
    """Let glibc reuse freed tensor memory instead of returning it to the system; return whether it agreed.

    By default every tensor of more than 128 KiB is a fresh mapping whose pages fault one by one, which costs
    small models a quarter of their speed. Elsewhere than on glibc nothing changes.
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
