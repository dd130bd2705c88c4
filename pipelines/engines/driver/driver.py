"""Drives one stage on a cluster to its end: settle, create, follow, try again, leave nothing behind."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from typing import Any

from components.contract.errors import InputError, PosttrainError
from components.contract.terminal import print_error, visible_line
from components.runtime.job.process import FAILED, REFUSED
from pipelines.engines.driver.api import Cluster, ClusterUnavailable
from pipelines.engines.driver.attempt import AGAIN_SECONDS, AWAY_SECONDS, Attempt, Clock, Outcome
from pipelines.engines.driver.causes import Cause
from pipelines.engines.driver.kinds import KINDS
from pipelines.engines.driver.lease import Lease
from pipelines.engines.driver.manifests.batch import STAGE_KEY
from pipelines.engines.driver.manifests.work import nodes_of, stage_key_of, work_kind, work_manifest, work_name
from pipelines.engines.driver.record import Book, Try
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
        self, run: DrivenStage, pool: Pool, settings: PodSettings, cluster: Cluster, *, clock: Clock | None = None
    ) -> None:
        assert run.job is not None
        self._run, self._job, self._pool, self._settings, self._cluster = run, run.job, pool, settings, cluster
        self._clock = clock or Clock()
        self._kind, self._nodes = work_kind(run.job, pool), nodes_of(run.job)
        self._book = Book(run.store, run.run_id, run.stage, self._clock.now)
        key = stage_key_of(run.run_id, run.stage)
        holder = f"{socket.gethostname()}-{os.getpid()}-{os.urandom(3).hex()}"
        labels = {STAGE_KEY: key}
        self._lease = Lease(cluster, settings.namespace, f"posttrain-{key}", holder, labels=labels, now=self._clock.now)
        self._attempt: Attempt | None = None

    def drive(self, *, retried: bool = False) -> int:
        """Return the exit code of a stage: 0 if it has ended well, or the run goes on without it.

        `retried` says that the engine tries this task again by itself: a round that has ended has then ended for good.
        """
        if not self._run.done() and (code := self._book.enter(retried=retried)) is not None:
            self._say(f"its tries have ended: {self._book.last_error}")
            return code
        code = self._settle()
        if code is not None and (not self._book.record.tries or self._book.record.final is not None):
            return code
        self._take_lease()
        try:
            code = self._settle()  # another driver may have ended it while this one waited
            code = self._tries() if code is None else self._tidy(code)
        except (Stopped, KeyboardInterrupt):
            self._leave()
            raise
        self._asked(lambda: self._lease.end(delete=code == 0))
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
            self._book.finish(REFUSED)
            raise
        return None

    def _tidy(self, code: int) -> int:
        """End what an earlier driver has left of a stage that is done; return `code`."""
        self._clear()
        if self._book.record.open is not None:
            self._book.end(Cause.DONE, "")
        self._book.finish(code)
        return code

    def _tries(self) -> int:
        while True:
            outcome = self._try()
            error = visible_line(outcome.error)
            self._book.end(outcome.cause, error)
            if outcome.cause is Cause.DONE:
                self._book.finish(0)
                return 0
            if outcome.silent:
                error = visible_line(self._run.record_death(outcome.error))
            self._say(f"{error} ({outcome.cause})")
            pause = pause_after(self._book.record.causes, self._job.retry, spot=self._pool.spot)
            if pause is None:
                return self._fail(outcome)
            self._pause(pause)

    def _fail(self, outcome: Outcome) -> int:
        if self._run.give_up(outcome.error):
            self._book.finish(0)
            return 0
        code = REFUSED if outcome.cause in FINAL else FAILED
        self._book.finish(code)
        return code

    def _try(self) -> Outcome:
        """Make one try, or go on with the one that an earlier driver began."""
        before = self._book.record.open
        if before is None:
            self._clear()
            name = work_name(self._job, len(self._book.record.tries))
            before = self._book.begin(name, self._kind.name)
        self._attempt = attempt = self._at(before)
        if attempt.find():
            print(f"{before.kind} {before.name} goes on", flush=True)
        elif before.seen:
            done, said = self._run.done(), f"{before.kind} {before.name} was removed while no driver looked"
            return Outcome(Cause.DONE) if done else Outcome(Cause.NODE_LOST, said, silent=True)
        else:
            manifest = work_manifest(
                KINDS[before.kind], self._job, self._pool, self._settings, before.name, self._lease.owner
            )
            if refused := attempt.create(manifest):
                return refused
            print(f"{before.kind} {before.name} in {self._settings.namespace}: {self._nodes} nodes", flush=True)
        self._book.seen()
        return attempt.follow()

    def _clear(self) -> None:
        """Wait until nothing of the last try runs any more: two tries never run at once."""
        tries = self._book.record.tries
        if not tries or tries[-1].cause is Cause.REJECTED:
            return
        last = self._at(tries[-1])
        if last.remains():
            self._waits("waits for the end of the try before")
            last.find()
            last.remove()

    def _at(self, one: Try) -> Attempt:
        place = (self._settings.namespace, one.name)
        return Attempt(
            self._run,
            self._cluster,
            self._lease,
            KINDS[one.kind],
            place,
            pods=self._nodes,
            clock=self._clock,
            began=one.began,
            tell=self._waits,
        )

    def _take_lease(self) -> None:
        while not self._asked(self._lease.take):
            self._waits("another driver has this stage; this one goes on if that one falls silent")
            self._clock.sleep(AGAIN_SECONDS)
        self._book = Book(self._run.store, self._run.run_id, self._run.stage, self._clock.now)

    def _pause(self, seconds: float) -> None:
        until = self._clock.now() + seconds
        self._waits(f"is tried again in {seconds:.0f} s")
        while (left := until - self._clock.now()) > 0:
            self._clock.sleep(min(left, AGAIN_SECONDS))
            self._asked(self._lease.renew)

    def _leave(self) -> None:
        """Free the nodes of a driver that is stopped, and let the next one begin at once."""
        try:
            if self._attempt is not None:
                self._attempt.remove(wait=False)
            if self._book.record.open is not None:
                self._book.end(Cause.STOPPED, "its driver was stopped")
            self._lease.end(delete=False)
        except PosttrainError as error:
            self._say(f"its nodes are freed later, when its lease is over: {error}")

    def _asked(self, ask: Callable[[], Any]) -> Any:
        """Ask Kubernetes until it answers."""
        began = self._clock.now()
        while True:
            try:
                return ask()
            except ClusterUnavailable:
                if self._clock.now() - began > AWAY_SECONDS:
                    raise
                self._clock.sleep(AGAIN_SECONDS)

    def _waits(self, text: str) -> None:
        if self._book.waits(text) and text:
            print(f"stage {self._run.stage!r}: {visible_line(text)}", flush=True)

    def _say(self, text: str) -> None:
        print_error(f"stage {self._run.stage!r}: {text}")
