"""Small files given by users: read whole, with a clear error for anything that is not a plain file."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

OPEN_ALREADY = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")
"""Paths of a shell's pipes: `command <(other command)`."""
KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
}


def read_small_file(file: str | Path, max_bytes: int) -> bytes:
    """Return the bytes of a file, or of standard input for "-".

    Raises ValueError with the problem, for a message that names the file: missing, not a plain file, or larger than
    `max_bytes`. Never waits for a writer of a named pipe, and never reads more than it needs.
    """
    if str(file) == "-":
        return _limited(sys.stdin.buffer.read(max_bytes + 1), max_bytes)
    try:
        # a named pipe that nobody writes to would keep a plain open waiting
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    except ValueError:
        raise ValueError("no file's name has a null character") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) and str(file).startswith(OPEN_ALREADY):
            os.set_blocking(descriptor, True)
        elif not stat.S_ISREG(mode):
            raise ValueError(f"{KINDS.get(stat.S_IFMT(mode), 'something else')}, not a file")
        with os.fdopen(descriptor, "rb", closefd=False) as stream:
            return _limited(stream.read(max_bytes + 1), max_bytes)
    except OSError as error:
        raise ValueError(error.strerror or str(error)) from None
    finally:
        os.close(descriptor)


def _limited(data: bytes, max_bytes: int) -> bytes:
    if len(data) > max_bytes:
        raise ValueError(f"larger than {max_bytes >> 20} MiB")
    return data
