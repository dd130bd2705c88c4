"""One process's delivery of one run's spooled events to MLflow: ready events, in causal order, each once."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import ValidationError

from components.contract.errors import CorruptArtifact, PosttrainError, StoreUnavailable
from components.runtime.lineage.delivery.cursor import Cursor
from components.runtime.lineage.delivery.order import delivery_order, is_closed
from components.runtime.lineage.delivery.target import (
    LineageBlocked,
    access_refused,
    artifact_root,
    configure_client,
    database_errors,
    prepare_database,
    unreachable,
)
from components.runtime.lineage.events import Event, RunStarted, parse_event
from components.runtime.lineage.heal import read_or_heal
from components.runtime.lineage.spool import run_started_key, spooled_keys

if TYPE_CHECKING:
    from components.runtime.lineage.delivery.run_writer import RunWriter
    from components.runtime.store import Store

SAVE_SECONDS = 1.0
TRIES = 2
"""How often an event is tried before it counts as refused."""


@dataclass
class Delivered:
    """What a delivery achieved for one run."""

    run_id: str
    delivered: int = 0
    """Events that this call wrote to MLflow."""
    pending: int = 0
    """Events that wait in the spool."""
    refused: dict[str, str] = field(default_factory=dict)
    """Spool key -> why MLflow refused the event; every later delivery tries it again."""
    problem: str | None = None
    """Why events wait: the server is unreachable, or another process delivers this run."""


class Delivery:
    """One process's work on one run; the process holds the run's delivery lock."""

    def __init__(self, store: Store, run_id: str, uri: str) -> None:
        self._store, self._run_id, self._uri = store, run_id, uri
        self._cursor = Cursor.load(store, run_id, uri)
        self._cursor.refused.clear()
        self._tries: dict[str, int] = {}
        self._writer: RunWriter | None = None
        self._count = 0
        self._waiting = 0
        self._closed = False
        self._saved = time.monotonic()

    def result(self) -> Delivered:
        """Return the result so far."""
        return Delivered(self._run_id, self._count, self._waiting, dict(self._cursor.refused), self._cursor.problem)

    def drain(self) -> None:
        """Deliver what is in the spool now."""
        while self.work():
            pass

    @property
    def closed(self) -> bool:
        """Whether the last listing had the run's end."""
        return self._closed

    def work(self) -> bool:
        """Deliver the events that are ready, once; return whether any was delivered or one is worth another try."""
        keys = self._listing()
        pending = [key for key in self._cursor.pending(keys) if key not in self._cursor.refused]
        self._waiting = len(pending)
        if not pending:
            return False
        first = self._event(run_started_key(self._run_id))
        if not isinstance(first, RunStarted):
            self._note(f"{run_started_key(self._run_id)}: missing or damaged, and the run's other events need it")
            return False
        self._note(unreachable(self._uri))
        if self._cursor.problem:
            return False
        configure_client()
        from mlflow.exceptions import MlflowException

        try:
            with database_errors(self._uri):
                if self._open(first):
                    pending = keys  # MLflow has lost the run, or never had it
                return self._write(first, keys, pending)
        except (MlflowException, LineageBlocked) as error:
            refused = isinstance(error, MlflowException) and access_refused(self._uri, error.get_http_status_code())
            self._note(f"{self._cursor.tracking_uri}: {refused or error}")
            self._writer = None  # look up MLflow's state again next time
            return False

    def _listing(self) -> list[str]:
        keys = spooled_keys(self._store, self._run_id)
        if is_closed(keys):  # a second listing cannot miss what was written before the run's end
            keys = spooled_keys(self._store, self._run_id)
        self._closed = is_closed(keys)
        return keys

    def _event(self, key: str) -> Event | None:
        """Return the event of a spool key; a damaged one is rebuilt from the ledger, or counts as refused."""
        try:
            record = read_or_heal(self._store, key, only_with_copies=True)
            return parse_event(record) if record else None
        except (CorruptArtifact, ValidationError) as error:
            self._cursor.refused[key] = str(error)
            return None

    def _open(self, first: RunStarted) -> bool:
        """Find the run in MLflow; return True if all its events have to be written, regardless of the cursor."""
        if self._writer is not None:
            return False
        prepare_database(self._uri)
        from mlflow.tracking import MlflowClient, set_tracking_uri

        from components.runtime.lineage.delivery.run_writer import RunWriter

        set_tracking_uri(self._uri)  # registering a version looks its model up there, not where the client points
        client = MlflowClient(self._uri, registry_uri=self._uri)
        self._writer = RunWriter(client, self._store, first, artifact_root(self._uri))
        if self._writer.complete or not self._cursor.delivered:
            return False
        self._cursor.delivered.clear()
        return True

    def _write(self, first: RunStarted, keys: list[str], pending: list[str]) -> bool:
        """Write ready events in causal order; return whether any was written or is worth another try."""
        events: Mapping[str, Event] = {key: event for key in pending if (event := self._event(key))}
        names = [stage.name for stage in first.stages] or [key.split("/")[3] for key in keys if "/stages/" in key]
        before, retry = self._count, False
        try:
            for key in delivery_order(events, keys, names, closed=self._closed):
                retry |= self._write_one(key, events[key])
        finally:
            assert self._writer is not None
            self._cursor.places = self._writer.places()
            self._waiting = len(self._cursor.pending(keys)) - len(self._cursor.refused)
            self._cursor.save()
        return retry or self._count > before

    def _write_one(self, key: str, event: Event) -> bool:
        """Write one event; return True if it failed and is worth another try. Raises when the server is at fault."""
        from mlflow.exceptions import MlflowException

        assert self._writer is not None
        try:
            self._writer.write(event)
        except (MlflowException, OSError, PosttrainError) as error:
            if not _about_the_event(error):
                raise
            return self._reject(key, error)
        self._cursor.delivered.add(key)
        self._count += 1
        if time.monotonic() - self._saved > SAVE_SECONDS:
            self._cursor.save()
            self._saved = time.monotonic()
        return False

    def _reject(self, key: str, error: Exception) -> bool:
        self._tries[key] = self._tries.get(key, 0) + 1
        if self._tries[key] < TRIES:
            return True
        self._cursor.refused[key] = f"{type(error).__name__}: {error}"
        return False

    def _note(self, problem: str | None) -> None:
        """Record why events wait, or that nothing blocks them any more."""
        if problem != self._cursor.problem:
            self._cursor.problem = problem
            self._cursor.save()


def _about_the_event(error: Exception) -> bool:
    """Return whether the event itself is at fault, rather than MLflow or the store being unreachable or closed."""
    from mlflow.exceptions import MlflowException

    if isinstance(error, MlflowException):
        status = error.get_http_status_code()
        return 400 <= status < 500 and status not in (401, 403, 408, 429)
    return not isinstance(error, StoreUnavailable)


def is_alive(pid: int) -> bool:
    """Return whether a process with this id exists."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
