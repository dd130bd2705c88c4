"""Delivery of a run's lineage while it goes on: one process for all runs of a store, started by the first real work."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from threading import Lock

from components.contract.errors import InputError, PosttrainError
from components.runtime.lineage.delivery.deliver import delivery_state
from components.runtime.lineage.delivery.followed import Followed
from components.runtime.lineage.delivery.target import database_path, tracking_uri, unreachable
from components.runtime.store import Store

PATIENCE_SECONDS = 30.0
POLL_SECONDS = 0.5
QUICK_PROBE_SECONDS = 1.0
LINEAGE = "POSTTRAIN_LINEAGE"
"""`live` (the default) delivers to MLflow during the run; `later` leaves it to `posttrain lineage sync`."""
DELIVERER = "components.runtime.lineage.delivery.deliver"


class Deliverer:
    """What an engine does for the delivery of its run. Nothing is started before `start`."""

    def __init__(self, store: Store, run_id: str) -> None:
        """Raise InputError if POSTTRAIN_LINEAGE has an unknown value."""
        mode = os.environ.get(LINEAGE, "live")
        if mode not in ("live", "later"):
            raise InputError(f"{LINEAGE}={mode!r}: expected live or later")
        self._store, self._run_id, self._later = store, run_id, mode == "later"
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = Lock()
        self.started = False

    def start(self) -> None:
        """Have the run's events delivered as they come; called again, it replaces a deliverer that was killed."""
        if self._later:
            return
        with self._starting:
            followed = Followed(self._store, tracking_uri(self._store))
            followed.add(self._run_id, os.getpid())
            self.started = True
            if (self._process is None or self._process.poll() is not None) and not followed.has_deliverer():
                self._process = start_process(self._store)

    def wait(self, *, worked: bool) -> tuple[str | None, int]:
        """Return why lineage is still pending, if known, and how many events are.

        A run that worked waits for its deliverer, but not for an unreachable server: `posttrain lineage sync` delivers
        the spool later. One in which nothing ran has started none: its events go with those of the next run, or when
        MLflow is looked at. A server that others look at gets them now, in the background.
        """
        if self._later:
            return f"{LINEAGE}=later", 0
        try:
            uri = tracking_uri(self._store)
            if worked:
                self.start()
                self._wait(uri)
            state = delivery_state(self._store, self._run_id, uri)
            away = None if worked or not state.pending else self._leave(uri)
        except PosttrainError as error:
            return str(error), 0
        refused = f"{len(state.refused)} events were refused" if state.refused else None
        return state.problem or away or refused, state.pending

    def _leave(self, uri: str) -> str | None:
        """Leave the events of a run in which nothing ran; return why they could not be delivered now, if they should.

        They are registered: the deliverer of another run takes them along, now or later.
        """
        if database_path(uri) is None:
            if away := unreachable(uri, seconds=QUICK_PROBE_SECONDS):
                return away
            self.start()
            return None
        followed = Followed(self._store, uri)
        followed.add(self._run_id, os.getpid())
        self.started = followed.has_deliverer()
        return None

    def _wait(self, uri: str) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        followed = Followed(self._store, uri)
        while time.monotonic() < deadline:
            state = delivery_state(self._store, self._run_id, uri)
            registered = (self._run_id, os.getpid()) in followed.runs()
            if not registered or (state.problem and state.pending):
                return
            if self._process is not None and self._process.poll() is not None and not followed.has_deliverer():
                return
            time.sleep(POLL_SECONDS)


def start_process(store: Store, *options: str) -> subprocess.Popen[bytes]:
    """Start a deliverer of a store: in a session of its own, so that Ctrl-C lets it finish, and of low priority."""
    return subprocess.Popen(
        ["nice", "-n", "5", sys.executable, "-m", DELIVERER, "--store", store.uri, *options],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
