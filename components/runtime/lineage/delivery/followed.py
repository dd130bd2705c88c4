"""Which runs of a store this machine's deliverer follows: engines register theirs, and one process serves them all.

A registration is an empty file RUN@PID beside the deliverer's lock, on this machine whatever the store is: polling it
costs no request. An engine registers before it looks whether a deliverer holds the lock, and a deliverer looks for
registrations once more after it freed the lock, so that one of the two sees the other.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from components.runtime.store import StoreLocked
from components.runtime.store.access import access_below, make_folder, open_up, top_of
from components.runtime.store.flock import acquire, is_held, release

if TYPE_CHECKING:
    from components.runtime.store import Store


class Followed:
    """The registrations of one store and one tracking server on this machine."""

    def __init__(self, store: Store, tracking_uri: str) -> None:
        self._top = top_of(store.uri)
        where = "\0".join((socket.gethostname(), store.uri, tracking_uri))
        self._folder = self._top / "locks" / f"deliverer-{hashlib.sha256(where.encode()).hexdigest()[:16]}"
        self._lock = self._folder.with_suffix(".lock")

    def add(self, run_id: str, pid: int) -> None:
        """Register a run, whose engine is the process `pid`; again, it changes nothing."""
        path = make_folder(self._folder, self._top) / f"{run_id}@{pid}"
        path.touch()
        open_up(path, access_below(self._top).file)

    def remove(self, run_id: str, pid: int) -> None:
        """Remove a run whose events are delivered, or whose engine is gone."""
        (self._folder / f"{run_id}@{pid}").unlink(missing_ok=True)

    def runs(self) -> set[tuple[str, int]]:
        """Return the registered runs, each with the process id of its engine."""
        if not self._folder.is_dir():
            return set()
        names = [path.name.rpartition("@") for path in self._folder.iterdir()]
        return {(run_id, int(pid)) for run_id, _, pid in names if run_id and pid.isdecimal()}

    def has_deliverer(self) -> bool:
        """Return whether a process delivers what is registered here."""
        return is_held(self._lock)

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Be the one deliverer within the context; yields False if there is another."""
        try:
            descriptor = acquire(self._lock, 0)
        except StoreLocked:
            yield False
            return
        try:
            yield True
        finally:
            release(self._lock, descriptor)
