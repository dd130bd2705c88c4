"""Waiting in the foreground for what starts runs of a recipe: a time of its schedule, or changed data.

One run at a time: what fires while a run is going, or waits for a person, starts one run when it has ended. Times that
pass while nobody watches are not caught up on; changed data are, since the store knows what the last run saw.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING

from components.contract.errors import InputError, PosttrainError, StoreUnavailable
from components.contract.terminal import visible_line
from components.runtime.store import StoreLocked
from pipelines.recipe.schedule.section import Schedule, Watched
from pipelines.runs.runs import LEASE_PATIENCE_SECONDS, LOCK_PATIENCE_SECONDS, RunResult
from pipelines.triggers.change import Change
from pipelines.triggers.listing import Lister, Listing
from pipelines.triggers.record import Trigger, by_data, by_time
from pipelines.triggers.seen import Seen

if TYPE_CHECKING:
    from components.runtime.store import Store

MAX_PAUSE_SECONDS = 30.0
"""Longest sleep: clocks are set, and machines wake up."""
MAX_BACKOFF_SECONDS = 600.0
STOPPED = 130

Start = Callable[[Trigger], RunResult]
"""Starts a run and returns when it has ended."""
Answered = Callable[[str], bool]
"""Whether a run that waits for a person can go on."""


@dataclass
class _Look:
    """What is known of one thing that is watched."""

    due: float = 0.0
    """When it is looked at next, in seconds since the epoch."""
    failures: int = 0
    settling: Listing | None = None
    """The changed listing of the last look; a change counts when two looks see the same."""
    size: int | None = None


@dataclass
class Watch:
    """Watches for one recipe."""

    name: str
    """Of the watcher: a second one of this name is refused."""
    schedule: Schedule
    store: Store
    start: Start
    resume: Callable[[], RunResult | None]
    """Goes on with a run that was cut off or has been approved; None if there is none."""
    answered: Answered
    tell: Callable[[str], None]
    now: Callable[[], datetime] = lambda: datetime.now(UTC)
    pause: Callable[[float], None] = time.sleep
    _looks: dict[Watched, _Look] = field(default_factory=dict)
    _following: datetime | None = None
    """The first time of the schedule that no run has handled."""
    _failures: int = 0
    _complaint: str = ""

    def run(self) -> int:
        """Watch until Ctrl-C or SIGTERM; return the exit code: 0, or 130 if a run was stopped.

        Raises InputError if the recipe is watched already.
        """
        with ExitStack() as stack:
            patience = LEASE_PATIENCE_SECONDS if "://" in self.store.uri else LOCK_PATIENCE_SECONDS
            try:
                stack.enter_context(self.store.lock(f"watch-{self.name}", wait_seconds=patience))
            except StoreLocked as error:
                raise InputError(f"this recipe is watched already: {error}") from error
            try:
                return self._watch()
            except KeyboardInterrupt:
                self.tell("no longer watching")
                return 0

    def _watch(self) -> int:
        self._seen, self._lister = Seen(self.store, self.name), Lister(self.store)
        self._handled = self.now()
        result = self._try(self.resume)
        while True:
            if result is not None and result.status == "stopped":
                return STOPPED
            if result is not None and result.status == "waiting":
                result = self._await_person(result.run_id)
                continue
            moment, trigger, changes = self._next()
            result = self._try(partial(self.start, trigger))
            if result is not None and result.status != "stopped":
                self._handled = moment
                for change in changes:
                    self._seen.note(change.item, change.listing)

    def _try(self, act: Callable[[], RunResult | None]) -> RunResult | None:
        """Return a run's end; None for a run that could not begin, with the reason told and a pause."""
        try:
            result = act()
        except PosttrainError as error:
            delay = self._backoff(self._failures)
            self._failures += 1
            self._complain(f"no run could start: {_line(error)}")
            self._rest(delay)
            return None
        self._failures, self._complaint = 0, ""
        return result

    def _await_person(self, run_id: str) -> RunResult | None:
        self.tell(f"waiting for a decision on run {run_id}; what fires meanwhile starts one run afterwards")
        while not self.answered(run_id):
            self._rest(self.schedule.poll_seconds)
        return self._try(self.resume)

    def _next(self) -> tuple[datetime, Trigger, list[Change]]:
        """Wait, and return when what fired, with the changes that its run will see."""
        told = False
        while True:
            now = self.now()
            changes = [change for item in self.schedule.on if (change := self._look(item, now.timestamp()))]
            if due := self._due(now):
                return now, due(changes), changes
            if changes:
                return now, by_data(changes), changes
            if not told and not self._complaint:
                self.tell(self._waits_for())
                told = True
            self._sleep(self._until_something(now))

    def _due(self, now: datetime) -> Callable[[list[Change]], Trigger] | None:
        """Return how a run says that the last of the times that have passed started it; None if none has."""
        cron = self.schedule.cron
        if cron is None:
            return None
        if self._following is None or self._following <= self._handled:
            self._following = cron.after(self._handled)
        due = cron.last(self._handled, now) if self._following <= now else None
        return partial(by_time, cron, due) if due else None

    def _look(self, item: Watched, now: float) -> Change | None:
        """Return a change that two looks have seen; looks only when it is time to."""
        look = self._looks.setdefault(item, _Look())
        if now < look.due:
            return None
        try:
            listing = self._lister.list(item)
        except StoreUnavailable as error:
            look.due = now + self._backoff(look.failures)
            if not look.failures:
                self.tell(f"{_line(error)} Trying again until it answers.")
            look.failures += 1
            return None
        if look.failures:
            self.tell(f"{visible_line(item.text)} answers again")
        look.failures, look.due, look.size = 0, now + self.schedule.poll_seconds, len(listing)
        change = Change.between(item, self._seen.of(item), listing)
        settled = change is not None and look.settling == listing
        if change and not settled and not self._complaint:
            self.tell(f"{change.words}; a run starts when it has stopped changing")
        look.settling = listing if change and not settled else None
        return change if settled else None

    def _waits_for(self) -> str:
        cron, following = self.schedule.cron, self._following
        parts = [f"cron {cron.words}, next {following.isoformat(timespec='minutes')}"] if cron and following else []
        for item in self.schedule.on:
            size = self._looks[item].size
            there = "" if size is None else f" ({size:,} there)" if size else " (nothing there yet)"
            parts.append(f"a change of {visible_line(item.text)}{there}")
        return f"waiting for {', or '.join(parts)}; Ctrl-C ends it"

    def _until_something(self, now: datetime) -> float:
        """Return the seconds until a look or a time of the schedule."""
        times = [look.due for look in self._looks.values()]
        if self._following is not None:
            times.append(self._following.timestamp())
        return min(times) - now.timestamp()

    def _rest(self, seconds: float) -> None:
        end = self.now().timestamp() + seconds
        while (left := end - self.now().timestamp()) > 0:
            self._sleep(left)

    def _sleep(self, seconds: float) -> None:
        self.pause(min(max(seconds, 0.05), MAX_PAUSE_SECONDS))

    def _backoff(self, failures: int) -> float:
        return min(self.schedule.poll_seconds * 2.0 ** min(failures, 16), MAX_BACKOFF_SECONDS)

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self.tell(text)
        self._complaint = text


def _line(error: Exception) -> str:
    return visible_line(" ".join(str(error).split()))
