"""Calls of MLflow's client that need paging, batches or a second try."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from mlflow.entities import Metric, Param, Run, RunTag, ViewType
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from components.runtime.lineage.delivery.model_writer import RUN_ID
from components.runtime.lineage.delivery.target import LineageBlocked
from components.runtime.lineage.events import RunStarted
from components.runtime.lineage.names import flatten, mlflow_name, mlflow_value

METRICS_PER_BATCH = 1000
TAGS_PER_BATCH = 100
PAGE = 1000

T = TypeVar("T")


def find_or_make_experiment(client: MlflowClient, first: RunStarted, artifact_root: str | None) -> str:
    """Return the id of the recipe's experiment; raise LineageBlocked if it was deleted."""
    recipe = first.recipe
    found = client.get_experiment_by_name(recipe)
    if found and found.lifecycle_stage != "active":
        raise LineageBlocked(
            f"MLflow: the experiment {recipe!r} is deleted; restore it (mlflow experiments restore "
            f"--experiment-id {found.experiment_id}) or remove it for good (mlflow gc)"
        )
    if found:
        return found.experiment_id
    location = f"{artifact_root}/{recipe}" if artifact_root else None
    tags = {"mlflow.note.content": first.summary} if first.summary else None
    try:
        return client.create_experiment(recipe, location, tags)
    except MlflowException:  # the deliverer of another run of this recipe may have been faster
        found = client.get_experiment_by_name(recipe)
        if not found:
            raise
        return found.experiment_id


def search_runs(client: MlflowClient, experiment: str, run_id: str) -> Iterable[Run]:
    """Yield the MLflow runs of one of our runs and of its stages."""
    ours, token = f"tags.`{RUN_ID}` = '{run_id}'", None
    while True:
        page = client.search_runs([experiment], ours, ViewType.ACTIVE_ONLY, PAGE, page_token=token)
        yield from page
        token = page.token
        if not token:
            return


def log_batches(
    client: MlflowClient,
    run_id: str,
    *,
    metrics: Iterable[Metric] = (),
    params: Mapping[str, Any] | None = None,
    tags: Mapping[str, str] | None = None,
) -> None:
    """Write metrics, parameters and tags of a run in as few calls as MLflow's limits allow."""
    pairs = [Param(mlflow_name(name), mlflow_value(value)) for name, value in flatten(params or {})]
    labels = [RunTag(mlflow_name(name), value) for name, value in (tags or {}).items()]
    batches: dict[str, Any] = {
        "metrics": list(_batches(metrics, METRICS_PER_BATCH)),
        "params": list(_batches(pairs, TAGS_PER_BATCH)),
        "tags": list(_batches(labels, TAGS_PER_BATCH)),
    }
    for batch in batches["metrics"]:
        client.log_batch(run_id, metrics=batch)
    for index in range(max(len(batches["params"]), len(batches["tags"]))):
        chosen = {kind: batches[kind][index] for kind in ("params", "tags") if index < len(batches[kind])}
        client.log_batch(run_id, **chosen)


def _batches(items: Iterable[T], size: int) -> Iterable[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch
