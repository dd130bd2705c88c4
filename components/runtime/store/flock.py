"""A lock on a file that the kernel frees when its holder dies."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from pathlib import Path

from components.runtime.store.access import access_below, make_folder, open_up
from components.runtime.store.blobs import StoreLocked

POLL_SECONDS = 0.05


def acquire(path: Path, wait_seconds: float) -> int:
    """Lock `path` against all processes and threads and return its descriptor; raise StoreLocked after the wait."""
    deadline = time.monotonic() + wait_seconds
    while (descriptor := _try(path)) is None:
        if time.monotonic() >= deadline:
            raise StoreLocked(
                f"{path.stem}: locked by {_holder(path)} ({path}), waited {wait_seconds:.0f} s. "
                "Wait for it or stop it; the lock is freed when it ends."
            )
        time.sleep(POLL_SECONDS)
    return descriptor


def release(path: Path, descriptor: int) -> None:
    """Free the lock and remove its file."""
    # still locked here: a process that opened it meanwhile sees in _try that its name is gone
    path.unlink(missing_ok=True)
    os.close(descriptor)


def is_held(path: Path) -> bool:
    """Return whether any process holds the lock at `path`, without taking the lock or creating its file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _try(path: Path) -> int | None:
    top = path.parent.parent
    make_folder(path.parent, top)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    open_up(descriptor, access_below(top).file)
    locked = False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # the last holder may have removed the name between our open and our lock; nobody else sees that file
        locked = os.fstat(descriptor).st_ino == path.stat().st_ino
        if locked:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode())
    except (BlockingIOError, FileNotFoundError):
        pass
    finally:
        if not locked:
            os.close(descriptor)
    return descriptor if locked else None


def _holder(path: Path) -> str:
    try:
        return path.read_text() or "another process"
    except OSError:
        return "another process"
