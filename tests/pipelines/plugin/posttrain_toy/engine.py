"""A third-party engine: runs the jobs of a plan one after the other, each in a process of its own."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from pipelines.engines.engine import Capabilities, Engine, RunOptions

if TYPE_CHECKING:
    from components.contract.job import Job
    from components.runtime.store import Store
    from pipelines.engines.shared.attempt import Ended
    from pipelines.plan.plan import Plan
    from pipelines.runs.runs import RunResult
    from pipelines.runs.view import RunView


class ToyEngine(Engine):
    """No queue, no retries, nobody to ask: what a plan needs of those is refused by the interface."""

    name = "toy"
    summary = "one job after the other, each in a process of its own"
    capabilities = Capabilities(timeouts=True, folder_store=True, live_progress=True, cancellation=True)
    decides = "it runs one job at a time"

    def run(self, plan: Plan, store: Store, view: RunView, options: RunOptions) -> RunResult:
        """Run the jobs in the plan's order; what stands behind a failed one is not run."""
        from pipelines.engines.shared.ending import run_result, status_of
        from pipelines.runs.runs import RunWriter, begin_run, exclusive, unfinished_run

        known = None if options.new else unfinished_run(store, plan.digest)
        plan = plan.with_run_id(known) if known else plan
        with exclusive(store, plan.run_id):
            begin_run(store, plan, engine=self.name)
            with view.showing():
                stopped = self._run_jobs(plan, view)
            from components.runtime.ledger.ledger import load_run

            status = "stopped" if stopped else status_of(load_run(store, plan.run_id), store)
            RunWriter(store, plan.run_id).end(status)
        return run_result(store, plan.run_id, status)

    def _run_jobs(self, plan: Plan, view: RunView) -> bool:
        """Run all jobs; return whether Ctrl-C stopped them."""
        failed: set[str] = set()
        try:
            for job in plan.jobs:
                now = {"stage": job.stage, "time": time.time()}
                if failed & set(job.after):
                    failed.add(job.stage)
                    view.event({**now, "event": "blocked"})
                elif (end := self._run_job(job, view)).code:
                    failed.add(job.stage)
                    view.event({**now, "event": "failed", "error": end.error})
        except KeyboardInterrupt:
            return True
        return False

    def _run_job(self, job: Job, view: RunView) -> Ended:
        import os

        from components.runtime.store import open_store
        from pipelines.engines.shared.launcher import launcher_command, process_environment, tied_to_this_process
        from pipelines.engines.shared.stage_job import record_death
        from pipelines.engines.shared.stage_process import StageProcess

        flags = ["--keep-timeout", *tied_to_this_process()]
        command = launcher_command(sys.executable, job.store, job.run_id, job.stage, *flags)
        process = StageProcess(command, process_environment(os.environ))
        try:
            end = process.follow(view.event, lambda line: None)
        finally:
            process.kill()
        if end.silent:
            store, error = open_store(job.store), end.error or "its process died"
            record_death(store, job.run_id, job.stage, error, view.event)
        return end
