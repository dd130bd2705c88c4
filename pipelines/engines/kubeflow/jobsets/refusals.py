"""Refused stages: Kubeflow retries every failed task, and would repeat the work of a stage whose gate does not hold.

So the retries of a refused attempt end at once. A retry of the whole run by a person comes after them, and works.
"""

from __future__ import annotations

from components.runtime.job.process import REFUSED
from pipelines.engines.kubeflow.stage_run import StageRun


class Refusals:
    """How often a stage of a run was refused."""

    def __init__(self, run: StageRun) -> None:
        assert run.job is not None
        self._run = run
        self._key = f"kubeflow/refused/{run.run_id}/{run.stage}.json"
        self._attempts = run.job.retry.retries + 1

    def standing(self) -> str | None:
        """Return why this attempt, a retry of a refused one, is pointless; None if it is not."""
        count = self._count()
        if count % self._attempts == 0:
            return None
        self._write(count + 1)
        failure = self._run.failure()
        reason = failure["error"] if failure else "its first attempt's log says why"
        return f"stage {self._run.stage!r} was refused, and a retry does not change that: {reason}"

    def note(self, code: int) -> None:
        """Note the exit code of an attempt that failed."""
        if code == REFUSED:
            self._write(self._count() + 1)

    def _count(self) -> int:
        record = self._run.store.get(self._key)
        return record["count"] if record else 0

    def _write(self, count: int) -> None:
        self._run.store.put(self._key, {"count": count}, overwrite=True)
