"""Attempts: a record of each try at a stage, whatever became of it, with what it held and for how long.

    ledger/<run>/attempts/<stage>.<began>-<random>.json

The job's own process writes it when it begins, again and again while it lasts, and when it ends. A process that is
killed leaves its last sign of life there; an engine that sees the death adds how it ended.
"""

from __future__ import annotations

import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from components.runtime.costs.amounts import Amount, Rate

if TYPE_CHECKING:
    from components.runtime.store import Store

End = Literal["running", "succeeded", "failed", "killed", "stopped"]
FIRST_SIGN_SECONDS, MAX_SIGN_SECONDS = 1.0, 30.0
"""Bounds of the time between two signs of life."""
SHARE_OF_AGE = 0.25
"""Signs of life come at this share of an attempt's age, so that a kill hides little of a short attempt, too."""


class Attempt(BaseModel):
    """One try at a stage. Seconds are those of a monotonic clock, so no change of the clock makes them wrong."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run_id: str
    stage: str
    attempt: str
    """Its name: when it began in milliseconds, and a random part."""
    started: AwareDatetime
    """When its process began."""
    seconds: FiniteFloat = Field(ge=0)
    """From the begin of its process to its end, or to its last sign of life."""
    cpu_seconds: FiniteFloat = Field(ge=0)
    """What the processes of its first node used of their cores."""
    waited_seconds: FiniteFloat | None = Field(default=None, ge=0)
    """How long it waited for its node before, if its engine knows; not part of `seconds`."""
    pool: str
    nodes: int = Field(ge=1)
    processes: int = Field(ge=1)
    """Processes that train together, on all nodes."""
    gpus: int = Field(ge=0)
    """GPUs on all nodes."""
    cpus: int = Field(ge=0)
    """Cores set aside on all nodes."""
    end: End = "running"
    """running also of a process that was killed unseen."""

    @property
    def key(self) -> str:
        """Return the key of its record."""
        return f"{attempts_prefix(self.run_id)}{self.stage}.{self.attempt}.json"

    def amount(self, rate: Rate | None) -> Amount:
        """Return what it took; `rate` has the price of its pool."""
        price = (rate.price_per_hour, rate.currency) if rate is not None and rate.pool == self.pool else (None, "")
        return Rate(self.pool, self.cpus, self.gpus, *price).amount(self.seconds, self.cpu_seconds)


def attempts_prefix(run_id: str) -> str:
    """Return what the keys of a run's attempts begin with."""
    return f"ledger/{run_id}/attempts/"


def is_attempt(key: str) -> bool:
    """Return whether a record's key is an attempt's."""
    return key.startswith("ledger/") and key.split("/")[2] == "attempts"


def new_name(started: datetime) -> str:
    """Return a fresh name of an attempt; names sort by time."""
    return f"{round(started.timestamp() * 1000):014d}-{secrets.token_hex(2)}"


def next_sign(age: float) -> float:
    """Return in how many seconds an attempt of this age shows its next sign of life."""
    return min(MAX_SIGN_SECONDS, max(FIRST_SIGN_SECONDS, SHARE_OF_AGE * age))


def attempts_of(store: Store, run_id: str, stage: str = "") -> tuple[dict[str, list[Attempt]], list[str]]:
    """Return stage -> its attempts, the earliest first, and the keys of records that cannot be read.

    With `stage`, those of one stage.
    """
    from components.runtime.ledger.ledger import Ledger

    keys = list(store.keys(f"{attempts_prefix(run_id)}{stage}{'.' if stage else ''}"))
    ledger, found = Ledger(store), {}
    unreadable: list[str] = []
    for key, record in ledger.read(keys).items():
        try:
            attempt = Attempt.model_validate(record)
        except ValidationError:
            unreadable.append(key)
            continue
        found.setdefault(attempt.stage, []).append(attempt)
    return found, sorted([*unreadable, *ledger.damaged])


def note_end(store: Store, run_id: str, stage: str, end: End) -> None:
    """Note how the open attempts at a stage ended, whose processes could not do it themselves.

    They lived until their last sign of life, and at most until the next one was due.
    """
    now = datetime.now(UTC)
    for attempt in attempts_of(store, run_id, stage)[0].get(stage, ()):
        if attempt.end == "running":
            silent = (now - attempt.started).total_seconds() - attempt.seconds
            more = min(max(0.0, silent), next_sign(attempt.seconds))
            put_attempt(store, attempt.model_copy(update={"seconds": attempt.seconds + more, "end": end}))


def put_attempt(store: Store, attempt: Attempt) -> None:
    """Write an attempt's record."""
    store.put(attempt.key, attempt.model_dump(mode="json"), overwrite=True)
