"""A stage of a run, as its task sees it: the job in the store, and the reporting of its end."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from typing import Any

from airflow.sdk import AssetAlias
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from components.contract.errors import InputError, PosttrainError
from components.contract.job import Job
from components.runtime.alarms.words import alarm_line, event_lines
from components.runtime.job.asking import Question
from components.runtime.job.giving_up import give_up
from components.runtime.ledger.records import alarms_key, stage_key
from components.runtime.store import Store, open_store
from pipelines.engines.airflow.assets import stage_output
from pipelines.engines.airflow.names import STORE, TRACKED, model_asset, run_id_of
from pipelines.engines.shared.stage_job import find_job, is_settled, question_of, record_death, tries_of
from pipelines.runs.view import PlainView


def store_uri() -> str:
    """Return this worker's store; raise InputError if none is set."""
    uri = os.environ.get(STORE)
    if not uri:
        raise InputError(f"set {STORE} in Airflow's environment to the store: a folder, or s3://bucket/prefix")
    return uri


class LogStream:
    """A text stream that writes lines to a task's log."""

    def __init__(self, log: Any) -> None:
        self._log = log

    def write(self, text: str) -> int:
        """Write one line; a bare newline is dropped."""
        if text.strip():
            self._log.info("%s", text.rstrip())
        return len(text)

    def flush(self) -> None:
        """Do nothing: there is no buffer."""


class StageRun:
    """One stage of one run: what its task does before and after the work itself, on the worker or as a pod."""

    def __init__(self, context: Any, recipe: str, stage: str, log: Any) -> None:
        """Find the job; raise AirflowSkipException if the run's parameters leave the stage out."""
        self.context, self.log = context, log
        self.run_id = run_id_of(recipe, context["dag_run"])
        try:
            self.store: Store = open_store(store_uri())
            job = find_job(self.store, self.run_id, stage)
        except InputError as error:
            raise AirflowFailException(str(error)) from None
        if job is None:
            raise AirflowSkipException(f"the parameters of run {self.run_id} leave {stage!r} out")
        self.job: Job = job

    @cached_property
    def sink(self) -> Callable[[dict[str, Any]], None]:
        """Return a sink that turns progress events into lines of the task's log."""
        view = PlainView([self.job], LogStream(self.log), named=False)  # type: ignore[arg-type]

        def sink(event: dict[str, Any]) -> None:
            if event["event"] == "alarm":  # a level of its own, by which Airflow's page colours and filters the log
                self.log.warning("%s", "; ".join(event_lines(event)))
            else:
                view.event(event)

        return sink

    def settled(self) -> bool:
        """Return whether nothing needs to run: the stage is done, cached, or its `when` does not hold."""
        try:
            return is_settled(self.job, self.store, self.sink)
        except InputError as error:
            if self.goes_on(str(error), final=True):
                return True
            raise AirflowFailException(str(error)) from None

    def question(self) -> Question | None:
        """Return what a person is asked before the stage, which is not settled; None if it asks nobody."""
        return question_of(self.job, self.store, self.sink)

    def lost(self) -> bool:
        """Return whether all tries are used up and the run goes on: the worker or the pod of the last one was lost."""
        return self._starts_left < 0 and self.goes_on("its last try was lost with its worker or pod", final=True)

    def goes_on(self, error: str, *, final: bool) -> bool:
        """Close a stage that failed for good if the run goes on without it; return whether it does.

        `final`: a retry cannot help; otherwise it is final after the last try.
        """
        if not (final or self._starts_left <= 0):
            return False
        return give_up(self.job, self.store, self.sink, error)

    @property
    def retried(self) -> bool:
        """Return whether Airflow tries the task again by itself, such as after a worker that was lost."""
        ti = self.context["ti"]
        return bool(ti.try_number > 1 + ti.max_tries - self.context["task"].retries)  # clearing it raises max_tries

    @property
    def holder(self) -> str:
        """Return who drives the stage: this try of the task, in the worker and in the triggerer."""
        return f"airflow-{self.context['ti'].id}"

    @property
    def _starts_left(self) -> int:
        """Return how many tries are left after this one, as the recipe counts them: -1 in the one beyond the last."""
        ti = self.context["ti"]
        beyond = tries_of(0, self.job.on_failure) - 1
        return int(ti.max_tries - ti.try_number + 1 - beyond)

    def record_death(self, message: str) -> str:
        """Record a failure that the stage's process could not record itself; return the record's message."""
        try:
            return record_death(self.store, self.run_id, self.job.stage, message, self.sink)
        except PosttrainError as error:  # the store is unreachable: the message stays in the task's log
            self.log.warning("not recorded in the ledger: %s", error)
            return message

    def finish(self) -> dict[str, Any]:
        """Report the stage's end to Airflow, and return a short summary for other tasks; the store has the rest."""
        entry = self.store.get(stage_key(self.run_id, self.job.stage))
        if entry is None:
            raise AirflowFailException(f"{self.job.stage} ended without a ledger entry in {self.store.uri}")
        if entry["status"] == "skipped":
            raise AirflowSkipException(entry["error"])
        self._tell_assets(entry)
        self._tell_log(entry)
        alarms = self._tell_alarms()
        outputs = {port: output["digest"] for port, output in entry["outputs"].items()}
        return {
            "run_id": self.run_id,
            "cache": entry["cache"],
            "outputs": outputs,
            "metrics": entry["metrics"],
            **alarms,
        }

    def _tell_alarms(self) -> dict[str, list[str]]:
        """End the log with the stage's alarms, as warnings; return them for the task's result."""
        record = self.store.get(alarms_key(self.run_id, self.job.stage)) or {"alarms": []}
        for alarm in record["alarms"]:
            self.log.warning("%s; usually helps: %s", alarm_line(alarm), alarm["helps"])
        return {"alarms": [alarm_line(alarm) for alarm in record["alarms"]]} if record["alarms"] else {}

    def _tell_log(self, entry: dict[str, Any]) -> None:
        """End the log with the stage's outputs and links."""
        if origin := entry.get("produced_by"):
            self.log.info("made by stage %s of run %s", origin["stage"], origin["run_id"])
        for port, output in entry["outputs"].items():
            self.log.info("%s  %s  %s", port, output["type"], output["digest"])
        self.log.info("posttrain show %s", self.run_id)

    def _tell_assets(self, entry: dict[str, Any]) -> None:
        """Attach provenance to each asset's event, so that it leads to the artifact and its history."""
        facts = {"run_id": self.run_id, "stage": self.job.stage, "fingerprint": entry["fingerprint"]}
        events, outlets = self.context["outlet_events"], self.context["task"].outlets
        aliases = [outlet for outlet in outlets if isinstance(outlet, AssetAlias)]
        registered = {outlet.uri: outlet for outlet in outlets if not isinstance(outlet, AssetAlias)}
        for port, output in entry["outputs"].items():
            lineage = f"posttrain lineage {self.run_id}:{self.job.stage}.{port}"
            extra = {**facts, "digest": output["digest"], "uri": output["uri"], "lineage": lineage}
            if output["type"] in TRACKED:
                for alias in aliases:
                    events[alias].add(stage_output(self.job.recipe, self.job.stage, port), extra)
            if self.job.register_as and output["type"] == "Model":
                for name in self.job.register_aliases:
                    lineage = f"posttrain lineage {self.job.register_as}@{name}"
                    if known := registered.get(model_asset(self.job.register_as, name)):
                        events[known].extra.update({**extra, "lineage": lineage})
