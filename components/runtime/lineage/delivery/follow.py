"""Following runs: one process delivers the events of every registered run of a store, until the last has ended."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from components.contract.errors import StoreUnavailable
from components.runtime.lineage.delivery.delivery import Delivery, is_alive
from components.runtime.lineage.delivery.followed import Followed
from components.runtime.store import StoreLocked
from components.runtime.store.access import top_of, writing_below

if TYPE_CHECKING:
    from components.runtime.store import Store

POLL_SECONDS = (0.3, 3.0)
"""The pause after a round that delivered something, and the longest one when there is nothing."""
AWAY_POLL_SECONDS = 10.0
ENGINE_SECONDS = 0.5
"""How soon a deliverer that waits notices that an engine is gone or a run was registered."""
TRIES_AT_THE_END = 2
"""How often an unreachable server is tried after a run has ended."""


def follow_runs(store: Store, uri: str) -> None:
    """Deliver the registered runs of a store until none is left; returns at once if another process does."""
    followed = Followed(store, uri)
    while followed.runs():  # again after the lock is free: a run may have been registered at the last moment
        with followed.alone() as mine, writing_below(top_of(store.uri)):
            if not mine:
                return
            _serve(store, uri, followed)


class Following:
    """One run that is followed: its delivery, and whether it is over."""

    def __init__(self, store: Store, run_id: str, uri: str, pid: int) -> None:
        """`pid` is the engine's process."""
        self.pid = pid
        self.over = self.worked = self.away = False
        self._store, self._run_id, self._uri = store, run_id, uri
        self._held = ExitStack()
        self._delivery: Delivery | None = None
        self._failures = 0

    def look(self) -> None:
        """Deliver what is new; the run is over when it or its engine has ended and nothing is left to try."""
        orphaned, self.worked = not is_alive(self.pid), False
        try:
            if self._delivery is None:
                self._held.enter_context(self._store.lock(f"lineage-{self._run_id}", wait_seconds=0))
                self._delivery = Delivery(self._store, self._run_id, self._uri)
            self.worked = self._delivery.work()
            self.away = self._delivery.result().problem is not None
        except StoreLocked:  # `lineage sync` delivers it now
            self.over = orphaned
            return
        except StoreUnavailable:
            self.away = True
        except Exception:  # one run's trouble is none of the others'; `lineage sync` tells what it is
            self._end()
            return
        self._failures = self._failures + 1 if self.away else 0
        ended = orphaned or (self._delivery is not None and self._delivery.closed)
        self.away = self.away and not ended
        if ended and not self.worked and (not self._failures or self._failures >= TRIES_AT_THE_END):
            self._end()

    def _end(self) -> None:
        self.over = True
        self._held.close()


def _serve(store: Store, uri: str, followed: Followed) -> None:
    """Deliver while runs are registered; one that is followed stays so until it is over."""
    following: dict[tuple[str, int], Following] = {}
    pause = POLL_SECONDS[0]
    while True:
        for key in followed.runs() - following.keys():
            following[key] = Following(store, key[0], uri, key[1])
        if not following:
            return
        for key, run in list(following.items()):
            run.look()
            if run.over:
                followed.remove(*key)
                del following[key]
        pause = _wait(list(following.values()), pause, followed)


def _wait(runs: list[Following], pause: float, followed: Followed) -> float:
    """Sleep between two rounds, but not on when an engine is gone or a run is new; return the next pause."""
    pause = POLL_SECONDS[0] if any(run.worked for run in runs) else min(pause * 1.5, POLL_SECONDS[1])
    deadline = time.monotonic() + (AWAY_POLL_SECONDS if all(run.away for run in runs) else pause)
    engines = [run.pid for run in runs if is_alive(run.pid)]
    while (left := deadline - time.monotonic()) > 0 and runs:
        time.sleep(min(left, ENGINE_SECONDS))
        if len(followed.runs()) > len(runs) or not all(map(is_alive, engines)):
            break
    return pause
