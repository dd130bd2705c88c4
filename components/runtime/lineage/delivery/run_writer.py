"""Writes one run's lineage events to MLflow. Imports MLflow, so only the deliverer imports this module.

Every write is idempotent: runs, logged models and versions are looked up by our tags before they are created;
parameters, tags and inputs do not change when set again; metrics carry their event's time, and MLflow's primary key
deduplicates equal rows. A deliverer that is killed at any point therefore only has to start over.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatchmethod
from typing import Any

from mlflow.entities import LoggedModelInput, Run
from mlflow.tracking import MlflowClient

from components.contract.artifacts import ArtifactType
from components.runtime.ledger.records import action_key
from components.runtime.lineage.delivery.children import FINGERPRINT, STAGE, Child, Children
from components.runtime.lineage.delivery.costs import run_costs, saved_costs, stage_costs
from components.runtime.lineage.delivery.mlflow_calls import find_or_make_experiment, log_batches, search_runs
from components.runtime.lineage.delivery.mlflow_entities import (
    alarm_tags,
    code_tags,
    curve_metrics,
    dataset_inputs,
    finish_tags,
    headline_metrics,
    named,
    results,
    run_alarm_tags,
    source_tags,
    stage_tags,
)
from components.runtime.lineage.delivery.model_writer import RUN_ID, ModelWriter
from components.runtime.lineage.delivery.overview import Overview, stage_note
from components.runtime.lineage.delivery.runs_page import experiment_tags, final_stages
from components.runtime.lineage.delivery.sample_table import write_samples
from components.runtime.lineage.delivery.sweep_table import write_trials
from components.runtime.lineage.events import (
    Event,
    MetricChunk,
    ModelRegistered,
    ReportReady,
    RunFinished,
    RunResumed,
    RunStarted,
    StageAlarms,
    StageFailureEvent,
    StageFinished,
    StageStarted,
    epoch_milliseconds,
)
from components.runtime.lineage.names import mlflow_value
from components.runtime.store import Store

NOTE = "mlflow.note.content"
MODELS = (ArtifactType.MODEL, ArtifactType.CHECKPOINTS)
RUN_STATUS = {"succeeded": "FINISHED", "failed": "FAILED", "stopped": "KILLED", "waiting": "SCHEDULED"}
STAGE_STATUS = {"done": "FINISHED", "skipped": "FINISHED", "failed": "FAILED"}


class RunWriter:
    """One of our runs in MLflow: a parent run in the recipe's experiment, and a child run for each stage."""

    def __init__(self, client: MlflowClient, store: Store, first: RunStarted, artifact_root: str | None) -> None:
        """Find the run's MLflow runs, or create the parent."""
        self._client, self._store, self._first = client, store, first
        self._experiment = find_or_make_experiment(client, first, artifact_root)
        self._children = Children(client, first, self._experiment)
        self._last = set(final_stages(first))
        self.complete = True
        """False if MLflow did not have the run, or had it twice: then every event has to be written again."""
        self._ended = 0
        """When the run last ended, in milliseconds; earlier turns are ignored."""
        self._parent = self._find_runs() or self._make_parent()
        self._models = ModelWriter(client, self._experiment)
        self._forked = self._find_forked()

    def places(self) -> dict[str, str]:
        """Return where the run is in MLflow: "experiment", "run" and "stage:<name>", each with MLflow's id.

        "forked" is the run that it is a fork of.
        """
        found = {f"stage:{child.stage}": child.run_id for child in self._children.by_start()}  # the newest wins
        return {"experiment": self._experiment, "run": self._parent, **found, **self._forked}

    def _find_forked(self) -> dict[str, str]:
        """Return the place of the run that this one is a fork of, if MLflow has it."""
        if self._first.fork is None:
            return {}
        runs = search_runs(self._client, self._experiment, self._first.fork["run"])
        found = next((run.info.run_id for run in runs if STAGE not in run.data.tags), None)
        return {"forked": found} if found else {}

    def _find_runs(self) -> str | None:
        """Collect parent and children by tag; return the parent's id, or None."""
        found: dict[tuple[str, str] | None, list[Run]] = {}
        for run in search_runs(self._client, self._experiment, self._first.run_id):
            tags = run.data.tags
            found.setdefault((tags[STAGE], tags[FINGERPRINT]) if STAGE in tags else None, []).append(run)
        kept = {identity: self._only(runs) for identity, runs in found.items()}
        for identity, run in kept.items():
            if identity:
                self._children.found(identity, run)
        if None not in kept:
            return None
        self._ended = kept[None].info.end_time or 0
        return kept[None].info.run_id

    def _only(self, runs: list[Run]) -> Run:
        """Keep one of several MLflow runs for the same thing: a lost response may have left a second one."""
        runs.sort(key=lambda run: run.info.run_id)
        for run in runs[1:]:
            self._client.delete_run(run.info.run_id)
            self.complete = False
        return runs[0]

    def _make_parent(self) -> str:
        self.complete = False
        tags = {RUN_ID: self._first.run_id, "posttrain.recipe": self._first.recipe, "posttrain.status": "running"}
        run = self._client.create_run(self._experiment, self._first.milliseconds, tags, self._first.run_id)
        return run.info.run_id

    @singledispatchmethod
    def write(self, event: Event) -> None:
        """Write one event to MLflow. Raises MlflowException, or OSError if a file cannot be uploaded."""
        raise TypeError(f"no lineage event: {event!r}")

    @write.register
    def _(self, event: RunStarted) -> None:
        tags = {
            "recipe_digest": event.recipe_digest,
            "plan_digest": event.plan_digest,
            "store": event.store,
            "engine": event.engine,
            "command": event.command,
            "overrides": event.overrides,
            "seed": event.seed,
            **({"trigger": event.trigger["text"]} if event.trigger else {}),
            **({"moved": event.moved} if event.moved else {}),
            **(_fork_tags(event.fork, self._forked.get("forked")) if event.fork else {}),
            **({"recipe_commit": event.recipe_commit} if event.recipe_commit else {}),
            **{f"package.{one['modules'][0]}": one["digest"] for one in event.packages},
            **code_tags(event.code),
        }
        # after the run's end, its description and columns tell of its results
        note = {} if self._ended else {NOTE: Overview(self._store, event).description(self.places())}
        source = source_tags(event.code, mlflow_value(event.command) if event.command else None)
        self._log(self._parent, params=event.params, tags=named(tags) | note | source)
        if event.recipe_text:
            self._client.log_text(self._parent, event.recipe_text, "recipe.yaml")
        if not self._ended:
            self._arrange({})

    @write.register
    def _(self, event: RunResumed) -> None:
        if event.milliseconds < self._ended:
            return
        self._client.update_run(self._parent, status="RUNNING")
        self._log(self._parent, tags={"posttrain.status": "running"})

    @write.register
    def _(self, event: RunFinished) -> None:
        if event.milliseconds < self._ended:
            return
        self._children.end_open(event.milliseconds)
        costs = run_costs(self._store, self._first, event.milliseconds)
        self._log(self._parent, metrics=costs, tags=named({"status": event.status, "seconds": event.seconds}))
        self._sum_up(event.status)
        self._client.set_terminated(self._parent, RUN_STATUS[event.status], event.milliseconds)
        self._ended = event.milliseconds

    @write.register
    def _(self, event: StageStarted) -> None:
        self._describe(self._child(event.stage, event.fingerprint, event.milliseconds), event)

    @write.register
    def _(self, event: MetricChunk) -> None:
        child = self._child(event.stage, event.fingerprint, event.milliseconds)
        self._log(child.run_id, metrics=curve_metrics(event))

    @write.register
    def _(self, event: StageAlarms) -> None:
        child = self._child(event.stage, event.fingerprint, event.milliseconds)
        self._log(child.run_id, tags=alarm_tags(event))
        self._log(self._parent, tags=run_alarm_tags(event))

    @write.register
    def _(self, event: StageFailureEvent) -> None:
        child = self._child(event.stage, event.fingerprint, event.milliseconds)
        if child.status == "FINISHED":
            return
        costs = stage_costs(self._store, self._first, event.stage, event.milliseconds)
        self._log(child.run_id, metrics=costs, tags=named({"status": "failed", "last_error": event.error}))
        self._children.end(child, "FAILED", event.milliseconds)

    @write.register
    def _(self, event: StageFinished) -> None:
        child = self._child(event.stage, event.fingerprint, epoch_milliseconds(event.started))
        event = self._with_all_params(event)
        if not child.described:
            self._describe(child, event)
        made = self._write_outputs(child, event)
        write_samples(self._client, self._store, child.run_id, event)
        write_trials(self._client, self._store, child.run_id, event)
        model = self._subject(event, made) if event.cache != "hit" else None
        metrics = headline_metrics(event, model) + saved_costs(self._store, self._first, event)
        metrics += stage_costs(self._store, self._first, event.stage, event.milliseconds)
        self._log(child.run_id, metrics=metrics, tags=finish_tags(event) | {NOTE: stage_note(event)})
        if event.stage in self._last:
            self._log(self._parent, metrics=results(event))
        self._children.end(child, STAGE_STATUS["failed" if event.failed else event.status], event.milliseconds)

    @write.register
    def _(self, event: ModelRegistered) -> None:
        newest = self.places().get(f"stage:{event.stage}", self._parent)
        self._models.register(event, newest)

    @write.register
    def _(self, event: ReportReady) -> None:
        self._client.log_artifact(self._parent, str(self._store.fetch(event.digest) / "index.html"), "report")
        self._log(self._parent, tags=named({"report": event.uri}))

    def _sum_up(self, status: str) -> None:
        """Make the parent run's page open on the results: a description, and what the run read and made."""
        overview = Overview(self._store, self._first)
        report = any(True for _ in self._store.keys(f"spool/{self._first.run_id}/reports/"))
        note = overview.description(self.places(), status, report=report)
        self._log(self._parent, tags={NOTE: note})
        if datasets := dataset_inputs(self._store, overview.read()):
            self._client.log_inputs(self._parent, datasets)
        self._models.link_outputs(self._parent, filter(None, map(self._models.find, overview.models())))
        self._arrange({name: entry["metrics"] for name, entry in overview.final.items()})

    def _arrange(self, metrics: Mapping[str, Mapping[str, float]]) -> None:
        """Give the recipe's page of runs its columns."""
        for name, value in experiment_tags(self._first, metrics).items():
            self._client.set_experiment_tag(self._experiment, name, value)

    def _child(self, stage: str, fingerprint: str | None, started: int) -> Child:
        return self._children.child(self._parent, stage, fingerprint, started)

    def _describe(self, child: Child, event: StageStarted | StageFinished) -> None:
        """Write what the stage was asked to do and what it reads."""
        self._log(child.run_id, params=event.params, tags=stage_tags(event) | source_tags(event.code, event.component))
        datasets = dataset_inputs(self._store, event.inputs)
        used = (item for items in event.inputs.values() for item in items if item.type in MODELS)
        models = [LoggedModelInput(self._models.find_or_import(item)) for item in used]
        if datasets or models:
            self._client.log_inputs(child.run_id, datasets, models)
        child.described = True

    def _with_all_params(self, event: StageFinished) -> StageFinished:
        """Return the event with the parameters that the stage ran with, defaults included, as when it started."""
        action = self._store.get(action_key(event.fingerprint)) if event.fingerprint else None
        return event.model_copy(update={"params": action["parts"]["params"]}) if action else event

    def _write_outputs(self, child: Child, event: StageFinished) -> dict[str, str]:
        """Log the stage's models; return port -> id of those that it made itself."""
        made: dict[str, str] = {}
        for port, output in event.outputs.items():
            if output.type in MODELS and event.cache != "hit":
                made[port] = self._models.log(output, event, port, child.run_id)
            elif output.type in MODELS and self._models.find(output.digest) is None:
                self._models.log(output, event, port, child.run_id)
        self._models.link_outputs(child.run_id, made.values())
        return made

    def _subject(self, event: StageFinished, made: Mapping[str, str]) -> str | None:
        """Return the model that a stage's metrics describe: one that it made, or else its input model."""
        for port, output in event.outputs.items():
            if output.type == ArtifactType.MODEL:
                return made[port]
        given = {port: items for port, items in event.inputs.items() if items and items[0].type == ArtifactType.MODEL}
        chosen = given.get("model") or next(iter(given.values()), [])
        return self._models.find(chosen[0].digest) if len(chosen) == 1 else None

    def _log(self, run_id: str, **what: Any) -> None:
        log_batches(self._client, run_id, **what)


def _fork_tags(fork: Mapping[str, Any], place: str | None) -> dict[str, Any]:
    """Return which run a run is a fork of, and from where on, as tags."""
    return {"fork.run_id": fork["run"], "fork.at": f"{fork['stage']}@{fork['step']}", "fork.mlflow_run_id": place}
