"""What MLflow's pages open on: columns of a recipe's runs, and a run's results, data, models and links."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from components.runtime.lineage.delivery.deliver import deliver
from components.runtime.store import Store
from tests.runtime.lineage.conftest import Story, client_of, uri_of

if TYPE_CHECKING:  # MLflow takes seconds to import, in every worker
    from mlflow.entities import Run
    from mlflow.tracking import MlflowClient

HOSTILE = "<script>alert(1)</script> [here](javascript:alert(1)) | `x`"
METRICS = {"entropy": 1.0, "maj@4": 0.5, "pass_at_1": 0.25}
AFTER = {"rl": ["data"], "evaluate": ["rl", "data"]}


def tell(store: Store, *, status: str = "succeeded", summary: str = "Learns sums") -> Story:
    """Write a run whose last stage measures what the one before trained."""
    story = Story(store, "quick-1")
    story.begin("data", "rl", "evaluate", summary=summary, **AFTER)
    story.stage("data", {"dataset": ("Dataset", "rows")})
    story.stage("rl", {"model": ("Model", "weights")}, inputs=story.inputs(dataset="data.dataset"))
    used = story.inputs(model="rl.model", dataset="data.dataset")
    measured = {"pass_at_1": {"value": 0.25, "low": 0.125, "high": 0.5, "n": 8}}
    story.stage("evaluate", {"metrics": ("Metrics", json.dumps(measured))}, inputs=used, metrics=METRICS)
    story.end(status)
    return story


def arrived(database: Path) -> tuple[MlflowClient, Any, dict[str, Run]]:
    """Return the client, the experiment and its runs by name."""
    client = client_of(database)
    experiment = client.get_experiment_by_name("quick")
    assert experiment is not None
    return client, experiment, {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}


def test_the_page_of_runs_has_the_headlines_and_parameters_as_columns(store: Store, database: Path) -> None:
    tell(store)
    deliver(store, "quick-1", uri_of(database))
    _, experiment, runs = arrived(database)
    view = json.loads(experiment.tags["mlflow.sharedViewState.posttrain"])
    assert {name: type(view[name]) for name in ("name", "createdAt", "state")} == {
        "name": str, "createdAt": int, "state": str
    }  # fmt: skip
    columns = json.loads(view["state"])["selectedColumns"]
    assert columns == [
        *("attributes.`Dataset`", "attributes.`Models`"),
        *("metrics.`evaluate/pass_at_1`", "metrics.`evaluate/entropy`"),
        *columns[4:],
    ]
    parent = runs["quick-1"]
    shown = [column.partition(".`")[2].rstrip("`") for column in columns[2:]]
    assert all(name in parent.data.metrics or name in parent.data.params for name in shown)
    assert {"rl_steps", "optimizer.name"} <= set(shown)
    assert experiment.tags["mlflow.experimentKind"] == "custom_model_development"
    assert experiment.tags["mlflow.experiment.primaryMetric.name"] == "evaluate/pass_at_1"


def test_a_run_opens_on_its_results_and_has_its_data_and_models(store: Store, database: Path) -> None:
    story = tell(store)
    deliver(store, "quick-1", uri_of(database))
    client, experiment, runs = arrived(database)
    parent = client.get_run(runs["quick-1"].info.run_id)
    first, links, *rest = parent.data.tags["mlflow.note.content"].split("\n\n")
    assert first.startswith("**succeeded** · evaluate: pass_at_1 25.0 [12.5, 50.0], ") and first.endswith(" %")
    page = f"#/experiments/{experiment.experiment_id}/runs/{parent.info.run_id}"
    assert f"[report]({page}/artifacts/report/index.html?workflowType=machine_learning)" in links
    row = f"| [evaluate](#/experiments/{experiment.experiment_id}/runs/{runs['evaluate'].info.run_id}?"
    assert any(row in part and "| rl.model | 25.0 [12.5, 50.0] |" in part for part in rest)
    assert "Learns sums" in rest
    [data] = parent.inputs.dataset_inputs
    assert data.dataset.digest == story.made["data.dataset"][1][:36]
    [model] = parent.outputs.model_outputs
    assert client.get_logged_model(model.model_id).tags["posttrain.digest"] == story.made["rl.model"][1]
    assert "pass_at_1 0.25" in runs["evaluate"].data.tags["mlflow.note.content"].replace("\\_", "_")


def test_a_failed_run_says_so_first_and_what_a_recipe_says_is_text(store: Store, database: Path) -> None:
    story = Story(store, "quick-1")
    story.begin("data", "rl", summary=HOSTILE, rl=["data"])
    story.stage("data", {"dataset": ("Dataset", "rows")})
    store.put("ledger/quick-1/failures/rl.json", {"error": f"no such file: {HOSTILE}"})
    story.end("failed")
    deliver(store, "quick-1", uri_of(database))
    note = arrived(database)[2]["quick-1"].data.tags["mlflow.note.content"]
    assert note.startswith("**failed**")
    assert "rl: no such file" in note
    assert "<script" not in note.replace("\\<", "") and "[here](" not in note


@pytest.mark.parametrize("turns", [("failed", "succeeded"), ("stopped", "failed", "succeeded")])
def test_the_last_turn_of_a_run_is_what_its_page_tells(store: Store, database: Path, turns: tuple[str, ...]) -> None:
    story = tell(store, status=turns[0])
    for status in turns[1:]:
        story.clock += 1
        story.spool.run_resumed(story.clock)
        story.end(status)
    deliver(store, "quick-1", uri_of(database))
    parent = arrived(database)[2]["quick-1"]
    assert parent.data.tags["mlflow.note.content"].startswith("**succeeded**")


def test_a_fork_names_the_run_that_it_is_of_and_links_to_it(store: Store, database: Path) -> None:
    tell(store)
    story = Story(store, "quick-2")
    story.begin("rl", fork={"run": "quick-1", "stage": "rl", "step": 40})
    record = {"run_id": "quick-1", "stage": "rl", "step": 40, "checkpoint": "ab" * 32, "seconds": 3600.0}
    story.stage("rl", {"model": ("Model", "others")}, forked=record)
    story.end("succeeded")
    for run_id in ("quick-1", "quick-2"):
        deliver(store, run_id, uri_of(database))
    client, experiment, runs = arrived(database)
    tags = runs["quick-2"].data.tags
    place = runs["quick-1"].info.run_id
    told = {name: tags[f"posttrain.fork.{name}"] for name in ("run_id", "at", "mlflow_run_id")}
    assert told == {"run_id": "quick-1", "at": "rl@40", "mlflow_run_id": place}
    link = f"/experiments/{experiment.experiment_id}/runs/{place}"
    assert "forked from quick-1 at rl@40" in tags["mlflow.note.content"] and link in tags["mlflow.note.content"]
    every = client.search_runs([experiment.experiment_id])
    (child,) = [run for run in every if run.data.tags.get("posttrain.fork.step") == "40"]
    assert child.data.tags["posttrain.fork.checkpoint"] == "ab" * 32
    assert not any(name.startswith("posttrain.fork") for name in runs["quick-1"].data.tags)
