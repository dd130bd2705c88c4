"""MLflow entities of an event: metrics, tags and dataset inputs, with names that MLflow accepts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlflow.entities import Dataset, DatasetInput, InputTag, Metric

from components.contract.artifacts import ArtifactType
from components.runtime.alarms.words import since_text
from components.runtime.ledger.approvals import seen_text
from components.runtime.ledger.records import utc
from components.runtime.lineage.events import Code, MetricChunk, StageAlarms, StageFinished, StageStarted, UsedArtifact
from components.runtime.lineage.names import dataset_digest, mlflow_name, mlflow_value
from components.runtime.system.machine import machine_in_words

if TYPE_CHECKING:
    from components.runtime.store import Store

CURVES = "train/"
"""Prefix of per-step metrics, so that a headline metric with the same name stays one number."""
ROWS = (ArtifactType.DATASET, ArtifactType.ROLLOUTS)
GIT_COMMIT = re.compile(r"^[0-9a-f]{40}$")


def curve_metrics(chunk: MetricChunk) -> list[Metric]:
    """Return the metrics of a chunk's rows, all at the chunk's own time."""
    return [
        Metric(mlflow_name(CURVES + name), value, chunk.milliseconds, int(row["step"]))
        for row in chunk.rows
        for name, value in row.items()
        if name != "step"
    ]


def headline_metrics(event: StageFinished, model: str | None) -> list[Metric]:
    """Return the headline metrics, linked to the model that they describe and to its input data."""
    rows = [item for items in event.inputs.values() for item in items if item.type in ROWS]
    data = rows[0] if model and len(rows) == 1 else None
    return [
        Metric(
            mlflow_name(name),
            value,
            event.milliseconds,
            0,
            model_id=model,
            dataset_name=_dataset_name(data.source) if data else None,
            dataset_digest=dataset_digest(data.digest) if data else None,
        )
        for name, value in event.metrics.items()
    ]


def dataset_inputs(store: Store, inputs: Mapping[str, list[UsedArtifact]]) -> list[DatasetInput]:
    """Return the rows that a stage reads as MLflow datasets: short digest, full digest in the source."""
    contexts: dict[tuple[str, str], list[str]] = {}
    for port, items in inputs.items():
        for item in items:
            if item.type in ROWS:
                contexts.setdefault((item.source, item.digest), []).append(port)
    return [
        DatasetInput(
            Dataset(
                name=_dataset_name(source),
                digest=dataset_digest(digest),
                source_type="posttrain",
                source=mlflow_value({"uri": store.artifact_uri(digest), "digest": digest, "source": source}),
            ),
            [InputTag("mlflow.data.context", ",".join(ports)), InputTag("posttrain.digest", digest)],
        )
        for (source, digest), ports in contexts.items()
    ]


def stage_tags(event: StageStarted | StageFinished) -> dict[str, str]:
    """Return what a stage was asked to do and what it reads, as tags."""
    tags = {"component": event.component, "seed": event.seed, "group": event.group, **code_tags(event.code)}
    tags |= {f"label.{name}": value for name, value in event.labels.items()}
    for port, items in event.inputs.items():
        tags[f"input.{port}"] = " ".join(f"{item.source}={item.digest}" for item in items)
    return named(tags)


def finish_tags(event: StageFinished) -> dict[str, str]:
    """Return how a stage ended and what it made, as tags."""
    tags: dict[str, Any] = {
        "status": "failed" if event.failed else event.status,
        "cache": event.cache,
        "seconds": event.seconds,
        "error": event.error,
        "gates": event.gates or None,
        "machine": machine_in_words(event.machine) or None,
    }
    if event.produced_by:
        tags["produced_by.run_id"], tags["produced_by.stage"] = event.produced_by.run_id, event.produced_by.stage
    for name in ("run_id", "stage", "step", "checkpoint"):
        tags[f"fork.{name}"] = event.fork.get(name)
    if approval := event.approval:
        tags |= {"approved.by": approval["by"], "approved.at": utc(approval["time"])}
        tags |= {"approved.inputs": approval["inputs"], "approved.seen": seen_text(approval["seen"]) or None}
    for port, output in event.outputs.items():
        tags[f"output.{port}"] = output.digest
        tags[f"output.{port}.uri"] = output.uri
    return named(tags)


def alarm_tags(event: StageAlarms) -> dict[str, str]:
    """Return a stage's alarms as tags: all names in one, to search for, and a line for each."""
    tags = {"alarms": " ".join(dict.fromkeys(alarm.name for alarm in event.alarms))}
    for alarm in event.alarms:  # of two with one name the later
        lasts = f"; usually helps: {alarm.helps}" if alarm.cleared is None else ""
        tags[f"alarm.{alarm.name}"] = f"{since_text(alarm.model_dump())}: {alarm.text}{lasts}"
    return named(tags)


def run_alarm_tags(event: StageAlarms) -> dict[str, str]:
    """Return the tags of the whole run for a stage's alarms; those of other stages stay."""
    told = "; ".join(f"{alarm.name} {since_text(alarm.model_dump())}" for alarm in event.alarms)
    return named({"alarms": "raised", f"alarm.{event.stage}": told})


def code_tags(code: Code) -> dict[str, Any]:
    """Return which code ran, as tags without our prefix."""
    return {"code.version": code.version, "code.dirty": code.dirty, "code.lock": code.lock}


def source_tags(code: Code, command: str | None = None) -> dict[str, str]:
    """Return MLflow's own tags for what ran, shown in its UI as the source: the command and the git commit."""
    tags = {"mlflow.source.type": "LOCAL", "mlflow.source.name": command} if command else {}
    return tags | ({"mlflow.source.git.commit": code.version} if GIT_COMMIT.match(code.version or "") else {})


def results(event: StageFinished) -> list[Metric]:
    """Return a final stage's metrics as results of the whole run, prefixed with the stage's name."""
    return [
        Metric(mlflow_name(f"{event.stage}/{name}"), value, event.milliseconds, 0)
        for name, value in event.metrics.items()
    ]


def named(tags: Mapping[str, Any]) -> dict[str, str]:
    """Return tags under our prefix; those without a value are left out."""
    return {f"posttrain.{name}": mlflow_value(value) for name, value in tags.items() if value is not None}


def _dataset_name(source: str) -> str:
    """Return the display name of a dataset: "stage.port", or the last part of its path or URI."""
    return Path(source.rstrip("/")).name[:200] or source[:200]
