"""Sees what happens to a stage's work, and when its driver has to act. Changes nothing but the lease and its notes.

It lives in the driver's process, or in another one, such as Airflow's triggerer, while no driver is there. What it
returns is acted upon by `Driver.act`: the two are one state machine, whose state is in the store and on the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from components.contract.terminal import visible_line
from pipelines.engines.driver.api import Cluster
from pipelines.engines.driver.attempt import Attempt, Outcome
from pipelines.engines.driver.causes import Cause
from pipelines.engines.driver.lease import Lease
from pipelines.engines.driver.logs import LiveLogs, Logs, ReadLogs
from pipelines.engines.driver.patience import AGAIN_SECONDS, Clock
from pipelines.engines.driver.record import Book, Try
from pipelines.engines.driver.stage import DrivenStage
from pipelines.engines.driver.waiting import Notes

OTHERS = "another driver has this stage; this one goes on if that one falls silent"


@dataclass(frozen=True)
class Seen:
    """That something has to be done: a try has ended, or what was waited for is there."""

    of: str = ""
    """The work that has ended."""
    outcome: Outcome | None = None
    pods: tuple[str, ...] = ()
    """Names of its pods."""

    def to_json(self) -> dict[str, Any]:
        """Return it for another process."""
        return {"of": self.of, "outcome": asdict(self.outcome) if self.outcome else None, "pods": list(self.pods)}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Return what another process saw."""
        outcome = told.get("outcome")
        ended = outcome and Outcome(**{**outcome, "cause": Cause(outcome["cause"])})
        return cls(told.get("of", ""), ended, tuple(told.get("pods", ())))


@dataclass
class Observer:
    """Follows one stage on behalf of its driver."""

    run: DrivenStage
    cluster: Cluster
    lease: Lease
    namespace: str
    clock: Clock
    say: Callable[[str], object] = field(default=lambda line: print(line, flush=True))
    """Shows a line to whoever looks."""
    live: bool = True
    """Whether logs are followed as they arrive, which takes a thread for each pod."""

    def __post_init__(self) -> None:
        place = (self.run.store, self.run.run_id, self.run.stage, self.clock.now)
        self.book, self.notes = Book(*place), Notes(*place)
        self._attempts: dict[str, Attempt] = {}
        self._logs: dict[str, Logs] = {}
        self._shown: set[str] = set()

    def hold(self) -> bool:
        """Return whether the lease is this driver's, now that it was renewed or taken; raise LeaseLost if it was."""
        held = self.lease.held
        if not self.lease.hold():
            self.tell(OTHERS)
            return False
        if not held:
            self.book.reload()
        return True

    def look(self) -> Seen | None:
        """Return what the driver has to act upon, None while there is nothing."""
        if not self.hold():
            return None
        one = self.book.record.open
        if one is None:
            return self._between()
        attempt = self.attempt(one)
        if not one.seen and not attempt.find():
            return Seen()  # an earlier driver was killed before it created it
        outcome = attempt.look(self._logs_of(one))
        self._show_pods(attempt)
        if outcome is None:
            return None
        del self._attempts[one.name]
        return Seen(one.name, outcome, tuple(sorted(attempt.pods)))

    def wait(self) -> None:
        """Wait for what may have to be acted upon, or for a while."""
        one = self.book.record.open
        if one is not None and self.lease.held:
            self.attempt(one).wait_for_change()
            return
        left = self.book.record.due - self.clock.now()
        self.clock.sleep(min(left, AGAIN_SECONDS) if left > 0 else AGAIN_SECONDS)

    def attempt(self, one: Try) -> Attempt:
        """Return the work of a try."""
        if one.name not in self._attempts:
            self._attempts[one.name] = Attempt(
                self.run, self.cluster, self.namespace, one, notes=self.notes, tell=self.tell, clock=self.clock
            )
        return self._attempts[one.name]

    def remains(self) -> bool:
        """Return whether anything of the last try may still run: two tries never run at once."""
        tries = self.book.record.tries
        return bool(tries) and tries[-1].cause is not Cause.REJECTED and self.attempt(tries[-1]).remains()

    def leave(self) -> None:
        """Free the nodes of a stage that somebody stops, and let the next driver begin at once."""
        if not self.lease.held:
            return
        if (one := self.book.record.open) is not None:
            self.attempt(one).delete()
            self.book.end(Cause.STOPPED, "its driver was stopped")
        self.tell("")
        self.lease.end(delete=False)

    def tell(self, text: str, **limit: Any) -> None:
        """Note why nothing runs, and show it if it is news."""
        if self.notes.tell(text, **limit) and text:
            self.say(f"stage {self.run.stage!r}: {visible_line(text)}")

    def _show_pods(self, attempt: Attempt) -> None:
        for pod, node in attempt.pods.items():
            if pod not in self._shown:
                self._shown.add(pod)
                self.say(f"pod {pod} on {node}")

    def _between(self) -> Seen | None:
        """Return that the next try may begin, None while it may not."""
        if self.remains() or self.clock.now() < self.book.record.due:
            return None
        return Seen()

    def _logs_of(self, one: Try) -> Logs:
        if one.name not in self._logs:
            place = (self.cluster, self.namespace, self.say)
            self._logs[one.name] = LiveLogs(*place) if self.live else ReadLogs(*place, self.lease.looked)
        return self._logs[one.name]
