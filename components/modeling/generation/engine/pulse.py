"""The pulse of an engine: a count of what it has got done, in an unnamed file that the stage reads while it waits.

A file and no message, so that telling never waits for a stage that is busy with other things.
"""

from __future__ import annotations

import os
import struct

_COUNT = struct.Struct("<Q")
_fd: int | None = None
_done = 0


def open_pulse(fd: int) -> None:
    """Write this process's pulse to the file descriptor `fd` from now on."""
    global _fd
    _fd = fd


def beat() -> None:
    """Count one more piece of work, such as a step of all rows; without an open pulse, do nothing."""
    global _done
    if _fd is not None:
        _done += 1
        os.pwrite(_fd, _COUNT.pack(_done), 0)


def read_pulse(fd: int) -> int:
    """Return the count in the file descriptor `fd`; 0 before the first beat."""
    found = os.pread(fd, _COUNT.size, 0)
    return int(_COUNT.unpack(found)[0]) if len(found) == _COUNT.size else 0
