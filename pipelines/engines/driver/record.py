"""What a driver did for a stage, in the store: its tries and its end. A driver that comes later goes on.

driver/<run>/<stage>.json
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from components.runtime.store import Store
from pipelines.engines.driver.causes import Cause


class Try(BaseModel):
    """One try at a stage."""

    model_config = ConfigDict(extra="ignore")

    name: str
    kind: str
    pods: int = 1
    began: float
    seen: bool = False
    """Whether it was there: one that was, and is gone, was deleted; one that never was may yet have to be created."""
    ended: float | None = None
    cause: Cause | None = None
    error: str = ""


class Record(BaseModel):
    """All tries at a stage of a run. A person who retries a run that has failed begins a new round."""

    model_config = ConfigDict(extra="ignore")

    tries: list[Try] = []
    round_from: int = 0
    """Number of tries before this round."""
    due: float = 0.0
    """Before which moment no further try begins."""
    final: int | None = None
    """Exit code of the round's end; None while it lasts."""

    @property
    def open(self) -> Try | None:
        """Return the try that has not ended."""
        return self.tries[-1] if self.tries and self.tries[-1].cause is None else None

    @property
    def causes(self) -> list[Cause]:
        """Return how the tries of this round ended."""
        return [item.cause for item in self.tries[self.round_from :] if item.cause is not None]


class Book:
    """Keeps a stage's record."""

    def __init__(self, store: Store, run_id: str, stage: str, now: Callable[[], float] = time.time) -> None:
        self._store, self._place, self._now = store, (run_id, stage), now
        self.record = read(store, run_id, stage)

    def reload(self) -> None:
        """Read what another driver may have written meanwhile."""
        self.record = read(self._store, *self._place)

    def begin(self, name: str, kind: str, pods: int = 1) -> Try:
        """Note a try before it is created."""
        self.record.tries.append(Try(name=name, kind=kind, pods=pods, began=self._now()))
        self._write()
        return self.record.tries[-1]

    def seen(self) -> None:
        """Note that the open try is there."""
        assert self.record.open is not None
        if not self.record.open.seen:
            self.record.open.seen = True
            self._write()

    def end(self, cause: Cause, error: str) -> None:
        """Note how the open try ended."""
        last = self.record.open
        assert last is not None
        last.ended, last.cause, last.error = self._now(), cause, error
        self._write()

    def postpone(self, due: float) -> None:
        """Note when the next try may begin."""
        if due != self.record.due:
            self.record.due = due
            self._write()

    def finish(self, code: int) -> None:
        """Note the end of the round."""
        self.record.final = code
        self._write()

    def enter(self, *, retried: bool) -> int | None:
        """Go on with the round, or begin a new one after the end of the last.

        Returns the exit code of a round that has failed if it is the engine that has `retried` it, and not a person.
        """
        if self.record.final is None:
            return None
        if retried and self.record.final:
            return self.record.final
        self.record.final, self.record.round_from = None, len(self.record.tries)
        self._write()
        return None

    @property
    def last_error(self) -> str:
        """Return why the last try failed."""
        return self.record.tries[-1].error if self.record.tries else "it was refused"

    def _write(self) -> None:
        self._store.put(record_key(*self._place), self.record.model_dump(mode="json"), overwrite=True)


def record_key(run_id: str, stage: str) -> str:
    """Return the key of a stage's record."""
    return f"driver/{run_id}/{stage}.json"


def read(store: Store, run_id: str, stage: str) -> Record:
    """Return a stage's record; an empty one if no driver has begun, or what is there cannot be read.

    Names follow from the numbers of tries, so whoever begins anew finds on the cluster what is there.
    """
    found: dict[str, Any] | None = store.recover(record_key(run_id, stage))
    try:
        return Record.model_validate(found or {})
    except ValidationError:
        return Record()
