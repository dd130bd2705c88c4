"""The operator that runs a stage as a process on Airflow's worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowRescheduleException,
    AirflowTaskTimeout,
)
from airflow.sdk.execution_time import task_runner
from airflow.sdk.execution_time.comms import CommsDecoder
from airflow.sdk.timezone import utcnow

from pipelines.engines.airflow.tasks.links import MlflowRun

if TYPE_CHECKING:
    from pipelines.engines.airflow.tasks.stage_run import StageRun
    from pipelines.engines.shared.stage_process import StageProcess


class StageTask(BaseOperator):
    """One stage of a recipe on the worker; its job is in the store, written by the run's first task."""

    ui_color = "#e8f4ea"
    operator_extra_links = (MlflowRun(),)

    def __init__(self, *, recipe: str, stage: str, **operator: Any) -> None:
        super().__init__(**operator)
        self.recipe, self.stage = recipe, stage
        self._process: StageProcess | None = None
        self._stopped = False

    def execute(self, context: Any) -> dict[str, Any]:
        """Run the stage; a refused one fails at once, any other failure is retried as set in the recipe."""
        from pipelines.engines.airflow.tasks.stage_run import StageRun

        run = StageRun(context, self.recipe, self.stage, self.log)
        if not run.settled() and not run.lost():
            self._work(run)
        return run.finish()

    def on_kill(self) -> None:
        """End the stage's process; stopping a worker is not a failure of the stage, which is resumable."""
        self._stopped = True
        if self._process is not None:
            self._process.kill()

    def _work(self, run: StageRun) -> None:
        from components.runtime.system.parent import die_with_parent
        from pipelines.engines.airflow.tasks.environment import stage_environment
        from pipelines.engines.shared.attempt import timed_out
        from pipelines.engines.shared.launcher import launcher_command, stage_python, tied_to_this_process
        from pipelines.engines.shared.stage_process import StageProcess

        if isinstance(getattr(task_runner, "SUPERVISOR_COMMS", None), CommsDecoder):
            die_with_parent()  # the supervisor: without it this task can no longer report
        job = run.job
        flags = ["--keep-timeout", *tied_to_this_process()]
        command = launcher_command(stage_python(), job.store, job.run_id, job.stage, *flags)
        self._process = StageProcess(command, stage_environment())
        try:
            end = self._process.follow(run.sink, lambda line: self.log.info("%s", line))
        except AirflowTaskTimeout:
            end = timed_out(run.job.timeout_seconds or 0)
        finally:
            self._process.kill()
        if self._stopped:
            raise AirflowRescheduleException(utcnow())
        message = str(end.error)
        if end.silent:
            message = f"stage {run.job.stage!r}: {run.record_death(end.error or 'its process died')}"
        if end.code and not run.goes_on(message, final=not end.retryable):
            raise (AirflowException if end.retryable else AirflowFailException)(message)
