"""MLflow's page of a recipe's runs: which columns it shows, and that it is one of model training.

MLflow has no setting for an experiment's columns. It has saved views: experiment tags `mlflow.sharedViewState.<id>`
with a name, a time and the page's state, which its Views menu lists and `?viewStateShareKey=<id>` opens (MLflow 3.17,
savedViewEnvelope.ts). `mlflow.experimentKind` keeps the page out of the mode for chat applications.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from components.contract.errors import PosttrainError
from components.contract.headlines import in_order
from components.contract.registry import components
from components.runtime.lineage.events import RunStarted
from components.runtime.lineage.names import flatten, mlflow_name

VIEW = "posttrain"
"""Id of the saved view."""
VIEW_NAME = "Results"
MAX_METRICS, MAX_PARAMS, PER_STAGE = 6, 8, 3
"""Most columns of each kind, and of one stage; of the parameters, those that the last run changed come first."""
PREFIX = "mlflow.sharedViewState."
TRAINING = "custom_model_development"
QUERY = f"workflowType=machine_learning&viewStateShareKey={VIEW}"
"""Query of the page's address that selects model training and this view."""


def experiment_tags(first: RunStarted, metrics: Mapping[str, Mapping[str, float]]) -> dict[str, str]:
    """Return the tags of a recipe's experiment; `metrics` are those of the final stages, as far as they are known."""
    headlines = list(_headlines(first, metrics))
    changed = {str(text).partition("=")[0].removeprefix("params.").strip() for text in first.overrides or ()}
    params = sorted((name for name, _ in flatten(first.params)), key=lambda name: name.partition(".")[0] not in changed)
    columns = [
        *(_column("attributes", name) for name in ("Dataset", "Models")),
        *(_column("metrics", name) for name in headlines[:MAX_METRICS]),
        *(_column("params", mlflow_name(name)) for name in params[:MAX_PARAMS]),
    ]
    state = {"selectedColumns": columns}
    envelope = {"name": VIEW_NAME, "createdAt": first.milliseconds, "state": json.dumps(state)}
    tags = {"mlflow.experimentKind": TRAINING, f"{PREFIX}{VIEW}": json.dumps(envelope)}
    if headlines:
        tags |= {"mlflow.experiment.primaryMetric.name": headlines[0]}
    return tags


def final_stages(first: RunStarted) -> list[str]:
    """Return the stages that no other stage waits for: their metrics are the results of the run."""
    awaited = {name for stage in first.stages for name in stage.after}
    return [stage.name for stage in first.stages if stage.name not in awaited]


def _headlines(first: RunStarted, metrics: Mapping[str, Mapping[str, float]]) -> Iterable[str]:
    """Yield the headline metrics of the final stages under their names in the parent run, one per stage in turn."""
    kinds = {stage.name: stage.component for stage in first.stages}
    found = {stage: _names(kinds[stage], metrics.get(stage, {}))[:PER_STAGE] for stage in final_stages(first)}
    for place in range(PER_STAGE):
        for stage, names in found.items():
            if place < len(names):
                yield mlflow_name(f"{stage}/{names[place]}")


def _names(component: str, metrics: Mapping[str, float]) -> list[str]:
    """Return a stage's metrics, the most informative first; those that its component declares if it has none yet."""
    if metrics:
        return list(in_order(component, metrics))
    try:
        return [name for name in components().get(component).metrics if "<" not in name]
    except PosttrainError:  # a component that is not installed here
        return []


def _column(kind: str, name: str) -> str:
    """Return a column as MLflow's page names it."""
    return f"{kind}.`{name}`"
