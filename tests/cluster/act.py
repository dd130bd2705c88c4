"""One run under watch: begun by our command, looked at until something is there, and checked in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from components.runtime.ledger.ledger import Ledger
from pipelines.engines.driver.api import ClusterUnavailable
from pipelines.engines.driver.causes import Cause
from pipelines.engines.driver.record import read
from tests.cluster import checks
from tests.cluster.going import RECIPE, Going
from tests.cluster.session import Session
from tests.cluster.sightings import Sighting, Sightings

POLL_SECONDS = 2.0
RUN_SECONDS, BEGIN_SECONDS, HIT_SECONDS, STOP_SECONDS = 3 * 3600.0, 1800.0, 300.0, 600.0
SETTLE_SECONDS = 300.0
"""How long what is left of a run may take to go, and lineage to arrive."""
SHOWN_SECONDS = 60.0
T = TypeVar("T")


class Wrong(Exception):
    """What did not hold; the run cannot be judged further."""


@dataclass
class Act:
    """A run of quickstart on an engine, for one step."""

    session: Session
    engine: str
    step: str
    going: Going
    seen: Sightings

    @classmethod
    def begin(cls, session: Session, engine: str, step: str) -> Act:
        """Start it, and wait until the store knows it."""
        going = session.start(session, engine, step)
        seed, passed = session.seed(step), 0.0
        while (run_id := newest_run(session, seed)) is None:
            if (code := going.code()) is not None:
                raise Wrong(f"the command ended with {code} before a run began: {last_line(going)}")
            if passed > BEGIN_SECONDS:
                going.leave()
                raise Wrong(f"no run began in {BEGIN_SECONDS:.0f} s: {last_line(going)}")
            session.sleep(POLL_SECONDS)
            passed += POLL_SECONDS
        seen = Sightings(run_id, session.cluster, session.namespace, session.now)
        return cls(session, engine, step, going, seen)

    @property
    def run_id(self) -> str:
        """Return the run's id."""
        return self.seen.run_id

    def until(self, found: Callable[[], T | None], seconds: float, what: str) -> T | None:
        """Look until something is there, and return it; None if the run ends first. Raises Wrong after so long."""
        passed = 0.0
        while True:
            self.look()
            if (one := found()) is not None:
                return one
            if self.going.code() is not None:
                return None
            if passed > seconds:
                raise Wrong(f"run {self.run_id}: {what} did not come in {seconds:.0f} s")
            self.session.sleep(POLL_SECONDS)
            passed += POLL_SECONDS

    def look(self) -> None:
        """Look once; an API server that is away for a moment is looked at again later."""
        try:
            self.seen.look()
        except ClusterUnavailable:
            return

    def hit(self, strike: Callable[[str, Sighting], None]) -> Sighting | None:
        """Strike a pod of a stage that runs; return it, or None if no stage ran long enough to be hit."""
        struck: set[str] = set()

        def victim() -> tuple[str, Sighting] | None:
            fresh = ((name, one) for name, one in self.seen.running().items() if name not in struck)
            return next(fresh, None)

        while (chosen := self.until(victim, RUN_SECONDS, "a pod that runs")) is not None:
            name, before = chosen
            struck.add(name)
            strike(name, before)
            self.until(lambda name=name: self._over(name), HIT_SECONDS, f"the end of pod {name}")
            if self.seen.pods[name].phase != "Succeeded" and not self._had_committed(before):
                return before
        return None

    def _over(self, name: str) -> bool | None:
        one = self.seen.pods[name]
        return True if one.gone or one.phase in ("Succeeded", "Failed") else None

    def _had_committed(self, one: Sighting) -> bool:
        """Return whether the pod's work had done the stage before it was struck."""
        tries = read(self.session.store, self.run_id, one.stage).tries
        return any(found.name == one.work and found.cause is Cause.DONE for found in tries)

    def shows(self, words: str) -> bool:
        """Return whether our command shows some words within a minute."""
        try:
            return bool(self.until(lambda: words in self.going.said() or None, SHOWN_SECONDS, words))
        except Wrong:
            return False

    def end(self) -> None:
        """Follow the run to the end of its command."""
        self.until(lambda: None, RUN_SECONDS, "the end of the run")

    def stop(self) -> None:
        """Stop the run as Ctrl-C does, and wait for the end of the command."""
        self.going.stop()
        self.until(lambda: None, STOP_SECONDS, "the end of a run that was stopped")

    def leave(self) -> None:
        """End the command if it still goes on."""
        self.going.leave()

    def wrong(self) -> list[str]:
        """Return what does not hold now that the run has ended."""
        session = self.session
        code = self.going.code()
        found = [f"the command ended with {code}: {last_line(self.going)}"] if code else []
        run = checks.record_of(session.store, self.run_id)
        found += checks.ledger_truth(self.seen, session.store, run, driven=self.engine == "kubeflow")
        found += checks.double_work(self.seen, session.store, run)
        found += checks.silent_leases(self.seen)
        found += self.left()
        missing = partial(checks.lineage_missing, session.store, self.run_id, session.tracking_uri)
        return found + checks.settled(missing, session.sleep, SETTLE_SECONDS, 5 * POLL_SECONDS)

    def left(self) -> list[str]:
        """Return what is left of the run in the cluster when it had the time to go."""
        run = checks.record_of(self.session.store, self.run_id)
        look = partial(checks.orphans, self.session.cluster, self.session.namespace, run)
        return checks.settled(look, self.session.sleep, SETTLE_SECONDS, 5 * POLL_SECONDS)


def newest_run(session: Session, seed: int) -> str | None:
    """Return the newest run of quickstart with a seed, None if there is none yet."""
    ledger = Ledger(session.store)
    mine = [name for name in ledger.newest if name.startswith(f"{RECIPE}-")]
    return next((name for name in mine if ledger.run_entry(name).get("seed") == seed), None)


def last_line(going: Going) -> str:
    """Return the last line that the command printed."""
    lines = [line for line in going.said().splitlines() if line.strip()]
    return lines[-1][:300] if lines else "it printed nothing"
