"""Drives one stage on a cluster to its end: settle, create, follow, try again, leave nothing behind.

`act` does all that can be done at once, and `Observer.look` says when there is more to do. `drive` calls the two in
turn for as long as it takes; Airflow calls `act` in a task and `look` in its triggerer. Every step can be repeated.
"""

from __future__ import annotations

import os
import socket
from functools import partial

from components.contract.errors import InputError, PosttrainError
from components.contract.terminal import print_error, visible_line
from components.runtime.job.process import FAILED, REFUSED
from pipelines.engines.driver.api import Cluster
from pipelines.engines.driver.attempt import Outcome
from pipelines.engines.driver.causes import Cause
from pipelines.engines.driver.kinds import KINDS
from pipelines.engines.driver.lease import stage_lease
from pipelines.engines.driver.manifests.work import nodes_of, work_kind, work_manifest
from pipelines.engines.driver.names import POD, work_name
from pipelines.engines.driver.observer import Observer, Seen
from pipelines.engines.driver.patience import Clock, Patience
from pipelines.engines.driver.record import Try
from pipelines.engines.driver.rules import FINAL, pause_after
from pipelines.engines.driver.stage import DrivenStage
from pipelines.engines.shared.approvals import REJECTED
from pipelines.engines.shared.pod import PodSettings
from pipelines.recipe.pools import Pool


class Stopped(PosttrainError):
    """This driver was told to stop."""

    exit_code = 143


class Driver:
    """The driver of one stage that has a job."""

    def __init__(
        self,
        run: DrivenStage,
        pool: Pool,
        settings: PodSettings,
        cluster: Cluster,
        *,
        clock: Clock | None = None,
        holder: str = "",
    ) -> None:
        """`holder` is who holds the lease: this process, unless several processes drive the stage in turn."""
        assert run.job is not None
        self._run, self._job, self._pool, self._settings = run, run.job, pool, settings
        self._clock = clock or Clock()
        place = os.environ.get(POD) or socket.gethostname()
        holder = holder or f"{place}-{os.getpid()}-{os.urandom(3).hex()}"
        lease = stage_lease(cluster, settings.namespace, (run.run_id, run.stage), holder, self._clock.now)
        self._observer = Observer(run, cluster, lease, settings.namespace, self._clock)
        self._book, self._lease = self._observer.book, lease
        self._refusal: InputError | None = None
        self._code: int | None = None

    def drive(self, *, retried: bool = False) -> int:
        """Return the exit code of a stage: 0 if it has ended well, or the run goes on without it."""
        if (code := self.enter(retried=retried)) is not None:
            return code
        patience, seen = Patience(self._clock, self._observer.tell), None
        try:
            while (code := patience.ask(partial(self.act, seen))) is None:
                while (seen := patience.ask(self._observer.look)) is None:
                    self._observer.wait()
        except (Stopped, KeyboardInterrupt):
            self._leave()
            raise
        return code

    def enter(self, *, retried: bool) -> int | None:
        """Begin, or go on; return the exit code of a round that has ended for good.

        `retried` says that the engine tries this task again by itself, in contrast to a person.
        """
        if self._run.done() or (code := self._book.enter(retried=retried)) is None:
            return None
        self._say(f"its tries have ended: {self._book.last_error}")
        return code

    def act(self, seen: Seen | None = None) -> int | None:
        """Do all that can be done now; return the exit code of a stage that has ended, None while it has not.

        `seen` is what the observer, here or in another process, has seen since. Raises InputError for what is refused,
        and ClusterUnavailable if Kubernetes does not answer: then call it again.
        """
        outcome = seen.outcome if seen is not None else None
        if self._code is None:
            code = None if outcome else self._settle()
            untouched = not self._book.record.tries or self._book.record.final is not None
            if code is not None and untouched and not self._lease.held:
                return self._ended(code)
            if not self._observer.hold():
                return None
            if seen is not None and outcome is not None:
                self._note(seen.of, outcome)
            self._code = self._advance() if code is None else self._tidy(code)
        if self._code is None:
            return None
        self._observer.tell("")
        self._lease.end(delete=self._code == 0)
        return self._ended(self._code)

    @property
    def last_error(self) -> str:
        """Return why the last try failed."""
        return self._book.last_error

    def _ended(self, code: int) -> int:
        if self._refusal is not None:
            raise self._refusal
        return code

    def _settle(self) -> int | None:
        """Return the exit code of a stage for which nothing has to run, and None for the others."""
        try:
            if self._run.settled():
                return 0
            if self._run.rejected():
                raise InputError(f"stage {self._run.stage!r}: {REJECTED}")
        except InputError as error:
            if self._run.give_up(str(error)):
                return 0
            self._refusal = error
            if not self._book.record.tries:
                self._book.finish(REFUSED)
            return REFUSED
        return None

    def _tidy(self, code: int) -> int | None:
        """End what an earlier driver has left of a stage that needs no work; return `code` once that is gone."""
        if (left := self._book.record.open) is not None:
            self._observer.attempt(left).delete()
            self._book.end(Cause.DONE if code == 0 else Cause.REFUSED, "")
        if self._clear():
            self._book.finish(code)
            return code
        return None

    def _advance(self) -> int | None:
        """Bring the stage as far as it comes now; return its exit code if it has ended."""
        record = self._book.record
        if record.final is not None:  # by another driver, while this one waited
            return record.final
        if record.open is None:
            if not self._clear():
                return None
            if record.causes:
                if record.causes[-1] is Cause.DONE:
                    self._book.finish(0)
                    return 0
                pause = pause_after(record.causes, self._job.retry, spot=self._pool.spot)
                if pause is None:
                    return self._fail(record.tries[-1])
                if self._pauses(record.tries[-1], pause):
                    return None
            self._book.begin(work_name(self._job, len(record.tries)), self._kind, nodes_of(self._job))
        assert record.open is not None
        if not record.open.seen and (refused := self._create(record.open)):
            self._note(record.open.name, refused)
            return self._advance()
        return None

    @property
    def _kind(self) -> str:
        return work_kind(self._job, self._pool).name

    def _note(self, name: str, outcome: Outcome) -> None:
        """Note how a try ended, unless that was noted before."""
        one = self._book.record.open
        if one is None or one.name != name:
            return
        error = visible_line(outcome.error)
        if outcome.silent:
            error = visible_line(self._run.record_death(outcome.error))
        if outcome.cause is not Cause.DONE:
            self._say(f"{error} ({outcome.cause})")
        self._book.end(outcome.cause, visible_line(outcome.error))
        self._observer.tell("")

    def _fail(self, last: Try) -> int:
        code = 0 if self._run.give_up(last.error) else REFUSED if last.cause in FINAL else FAILED
        self._book.finish(code)
        return code

    def _create(self, one: Try) -> Outcome | None:
        """Create the work of a try, or find what an earlier driver created; return the end of one that is refused."""
        attempt, place = self._observer.attempt(one), self._settings.namespace
        if attempt.find():
            print(f"{one.kind} {one.name} goes on", flush=True)
        else:
            owned = (one.name, self._lease.owner)
            refused = attempt.create(work_manifest(KINDS[one.kind], self._job, self._pool, self._settings, *owned))
            if refused is not None:
                return refused
            print(f"{one.kind} {one.name} in {place}: {one.pods} nodes", flush=True)
        self._book.seen()
        return None

    def _clear(self) -> bool:
        """Return whether nothing of the last try runs any more; what does is deleted."""
        if not self._observer.remains():
            return True
        self._observer.tell("waits for the end of the try before")
        self._observer.attempt(self._book.record.tries[-1]).delete()
        return False

    def _pauses(self, last: Try, pause: float) -> bool:
        """Return whether the pause before the next try lasts."""
        due = (last.ended or 0.0) + pause
        self._book.postpone(due)
        if (left := due - self._clock.now()) <= 0:
            return False
        self._observer.tell(f"is tried again in {left:.0f} s")
        return True

    def _leave(self) -> None:
        try:
            self._observer.leave()
        except PosttrainError as error:
            self._say(f"its nodes are freed later, when its lease is over: {error}")

    def _say(self, text: str) -> None:
        print_error(f"stage {self._run.stage!r}: {text}")
