"""The local scheduler: when each job starts, on how many cores, with how many attempts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from threading import Event
from typing import Any

from components.contract.errors import GateFailed, InputError, PosttrainError
from components.contract.job import Job
from components.runtime.closure.walk import Closures
from components.runtime.costs.attempts import note_end
from components.runtime.job.giving_up import give_up
from components.runtime.job.launch import Launch
from components.runtime.job.metering import WAITED
from components.runtime.job.process import REFUSED
from components.runtime.store import Store
from pipelines.engines.local.job_process import run_attempt
from pipelines.engines.shared.approvals import Decision, decide, due
from pipelines.engines.shared.attempt import Ended
from pipelines.runs.view import RunView

LOOK_AGAIN_SECONDS = 5.0
"""How soon a run with other work sees a person's decision."""
EXAMINE_AGAIN_SECONDS = 2.0
"""How long an edit of the source may go unseen by a run; a stage that runs longer is followed by a fresh look."""
Attempt = Callable[[Job, Path, dict[str, str], Callable[[dict[str, Any]], None], Event], Ended]


@dataclass
class Ending:
    """How each stage of a run ended."""

    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    waiting: set[str] = field(default_factory=set)
    blocked: set[str] = field(default_factory=set)
    refused: set[str] = field(default_factory=set)
    """Failed stages that no further attempt can help."""
    executed: int = 0
    stopped: bool = False

    @property
    def status(self) -> str:
        """Return the status of the whole run."""
        if self.stopped:
            return "stopped"
        if self.failed:
            return "failed"
        return "waiting" if self.waiting else "succeeded"


class Scheduler:
    """Runs the jobs of one run in dependency order, independent ones concurrently within the machine's cores."""

    def __init__(
        self,
        jobs: Iterable[Job],
        *,
        store: Store,
        view: RunView,
        logs: Path,
        environment: dict[str, str],
        cores: int,
        attempt: Attempt = run_attempt,
        on_work: Callable[[], None] = lambda: None,
    ) -> None:
        """`attempt` runs one attempt at a job: in a process of this machine by default; `on_work` precedes each job."""
        self.jobs = {job.stage: job for job in jobs}
        self._attempt, self._on_work = attempt, on_work
        self.store, self.view, self.logs, self.environment = store, view, logs, environment
        self.cores = cores
        self.stop = Event()
        self.ending = Ending()
        self._free = cores  # a job of a pool with more cores than this machine gets all of them
        self._queued: dict[str, float] = {}
        """Stage -> when it was ready to run, by the monotonic clock."""
        self._closures, self._examined = Closures(), time.monotonic()
        self._asking: list[Job] = []
        self._told: set[str] = set()
        self._running: dict[Future[Ended], Job] = {}

    def run(self) -> Ending:
        """Run until no more jobs can start; Ctrl-C ends the running jobs and leaves a resumable run."""
        order = TopologicalSorter({name: job.after for name, job in self.jobs.items()})
        order.prepare()
        ready: list[Job] = []
        with ThreadPoolExecutor(max_workers=max(self.cores, 1)) as pool:
            try:
                while order.is_active():
                    ready += [self.jobs[name] for name in order.get_ready()]
                    ready += self._answered()
                    settled = [job for job in ready if self._settle(job)]
                    ready = [job for job in ready if job not in settled and job not in self._asking]
                    self._start(ready, pool)
                    if self._running and not settled:
                        settled = self._finish()
                    elif not settled and not (settled := self._unanswered()):
                        break
                    for job in settled:
                        order.done(job.stage)
            except KeyboardInterrupt:
                self.ending.stopped = True
                self.stop.set()
        return self.ending

    def _settle(self, job: Job) -> bool:
        """Settle jobs that need no process: blocked, waiting for a person, refused, skipped or cached."""
        if any(name in self.ending.failed or name in self.ending.blocked for name in job.after):
            return self._block(job)
        if any(name in self.ending.waiting for name in job.after):
            self.ending.waiting.add(job.stage)
            return True
        if job.stage in self._queued:
            return False
        try:
            launch = Launch(job, self.view.event, store=self.store, closures=self._source())
            if launch.reuse():
                self.ending.done.add(job.stage)
                return True
            decision = decide(launch.question(), self.store, self.view.ask)
            if job.approve and decision is Decision.APPROVED and launch.reuse():
                self.ending.done.add(job.stage)
                return True
        except PosttrainError as error:
            if self._goes_on(job, str(error)):
                return True
            return self._fail(job, str(error), refused=isinstance(error, InputError | GateFailed))
        if decision is Decision.WAITING:
            if job.stage not in self._told:
                self._told.add(job.stage)
                self.view.event({"event": "approval", "stage": job.stage, "time": time.time(), "run_id": job.run_id})
            self._asking.append(job)
            return False
        if decision is Decision.REJECTED:
            reason = "rejected by a person or by its time limit; that stands, and --new starts a run that asks again"
            self._record_death(job, reason)  # the view gets the event too
            self.ending.failed[job.stage] = reason
            return True
        self._queued[job.stage] = time.monotonic()
        return False

    def _source(self) -> Closures:
        """Return what is known of the source as it is now: stages that settle one after another examine it once."""
        now = time.monotonic()
        if now - self._examined > EXAMINE_AGAIN_SECONDS:
            self._closures, self._examined = Closures(), now
        return self._closures

    def _answered(self) -> list[Job]:
        """Return the jobs that wait for a person, to be checked again: other work continues, and answers may arrive."""
        asking, self._asking = self._asking, []
        return asking

    def _unanswered(self) -> list[Job]:
        """Give up on jobs still undecided after all other work; return them."""
        self.ending.waiting |= {job.stage for job in self._asking}
        return self._answered()

    def _start(self, ready: list[Job], pool: ThreadPoolExecutor) -> None:
        for job in list(ready):
            cpus = min(job.resources.cpus, self.cores)
            if cpus <= self._free:
                self._free -= cpus
                ready.remove(job)
                self.ending.executed += 1
                self._on_work()
                self._running[pool.submit(self._attempts, job)] = job

    def _finish(self) -> list[Job]:
        """Wait for a running job to end, or for the next check of an open question; return the jobs that ended."""
        ended, _ = wait(self._running, timeout=self._patience(), return_when=FIRST_COMPLETED)
        jobs = []
        for future in ended:
            job = self._running.pop(future)
            self._free += min(job.resources.cpus, self.cores)
            result = future.result()
            if result.code == 0 or self._goes_on(job, result.error or "failed"):
                self.ending.done.add(job.stage)
            elif result.left:
                self.ending.stopped = True
                self.ending.blocked.add(job.stage)
            else:
                self._fail(job, result.error or "failed", refused=result.code == REFUSED)
            jobs.append(job)
        return jobs

    def _patience(self) -> float | None:
        """Return the seconds until the next check of an open question; None if there is none."""
        if not self._asking:
            return None
        deadlines = [deadline for job in self._asking if (deadline := due(job, self.store)) is not None]
        return max(0.0, min([LOOK_AGAIN_SECONDS, *(deadline - time.time() for deadline in deadlines)]))

    def _attempts(self, job: Job) -> Ended:
        """Run a job with its retries; the pause doubles each time."""
        waited = {WAITED: f"{time.monotonic() - self._queued[job.stage]:.3f}"}
        for attempt in range(job.retry.retries + 1):
            log, environment = self.logs / f"{job.stage}.log", self.environment | (waited if attempt == 0 else {})
            result = self._attempt(job, log, environment, self.view.event, self.stop)
            if self.stop.is_set():
                self._note_stop(job)
            if result.silent:
                self._record_death(job, result.error or "its process died")
            if result.code == 0 or not result.retryable or attempt == job.retry.retries:
                return result
            pause = job.retry.pause_before(attempt + 1)
            self.view.event(
                {
                    "event": "retry",
                    "stage": job.stage,
                    "time": time.time(),
                    "attempt": attempt + 1,
                    "seconds": pause,
                    "error": result.error,
                }
            )
            if self.stop.wait(pause):
                return Ended(130, "stopped")
        raise AssertionError("unreachable: the last attempt returns")

    def _goes_on(self, job: Job, error: str) -> bool:
        """Close a job that failed for good if the run goes on without it; return whether it does."""
        with suppress(PosttrainError):  # a store that takes no record
            return not self.stop.is_set() and give_up(job, self.store, self.view.event, error)
        return False

    def _record_death(self, job: Job, error: str) -> None:
        with suppress(PosttrainError):  # a full disk takes no record either; the ending reports it, and a rerun resumes
            Launch(job, self.view.event, store=self.store).record_death(error)

    def _note_stop(self, job: Job) -> None:
        with suppress(PosttrainError):
            note_end(self.store, job.run_id, job.stage, "stopped")

    def _fail(self, job: Job, error: str, *, refused: bool) -> bool:
        self.ending.failed[job.stage] = error
        if refused:
            self.ending.refused.add(job.stage)
        self.view.event({"event": "failed", "stage": job.stage, "time": time.time(), "error": error})
        return True

    def _block(self, job: Job) -> bool:
        self.ending.blocked.add(job.stage)
        self.view.event({"event": "blocked", "stage": job.stage, "time": time.time()})
        return True
