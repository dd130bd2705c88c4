"""Lineage through the command line: a tracking server that is away, runs that are killed, and the ancestor graph.

What MLflow holds is read from its database, row by row, and compared with what the run's own artifacts say.
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from components.runtime.lineage.names import mlflow_name
from components.runtime.store import open_store
from tests.support.command_line import MICRO, Project
from tests.support.mlflow_server import rows_of, serving

REGISTERED = "quickstart"  # micro extends quickstart, which registers under its own name
LAST = "evaluate"
DATASETS = ("heldout.dataset", "dev.dataset", "corpus.dataset", "demos.dataset", "prompts.dataset")
LOGGED = {"Model", "Checkpoints"}
KILL_BEFORE_SECONDS = 120
Run = tuple[Project, dict[str, Any], str]


def test_a_run_ends_well_without_the_server_and_sync_delivers_all_of_it_once(away: Run, tmp_path: Path) -> None:
    project, shown, printed = away
    assert shown["status"] == "succeeded"
    uri = project.environment["MLFLOW_TRACKING_URI"]
    assert f"some lineage is not there yet ({uri}: " in printed and "posttrain lineage sync" in printed

    still_away = json.loads(project.call("lineage", "sync", "--json", code=1))
    events = len(list(Path(project.store, "spool").rglob("*.json")))
    waiting = still_away["runs"][shown["run_id"]]
    assert not still_away["complete"]
    assert (waiting["delivered"], waiting["pending"], waiting["refused"]) == (0, events, {})

    database = tmp_path / "mlflow.db"
    with serving(database, int(uri.rpartition(":")[2])):
        first = project.json("lineage", "sync")
        assert first["complete"]
        assert first["runs"][shown["run_id"]] == {**waiting, "delivered": events, "pending": 0, "problem": None}
        assert project.json("lineage", "sync") == {"tracking_uri": uri, "complete": True, "runs": {}}
    assert_exact(database, shown)
    page = project.json("report", shown["run_id"])["page"]
    assert [Path(page).read_bytes()] == [found.read_bytes() for found in tmp_path.rglob("artifacts/report/index.html")]


@pytest.mark.parametrize("delivery", ["later", pytest.param("live", marks=pytest.mark.slow)])
def test_a_run_killed_twice_is_recorded_once(delivery: str, tmp_path: Path) -> None:
    environment = {"POSTTRAIN_LINEAGE": delivery, "MLFLOW_TRACKING_URI": ""}  # the default place: beside the store
    project = Project(tmp_path, str(tmp_path / "store"), environment)
    for stage in ("sft", "rl"):
        kill_in(project, stage)
    shown = project.run()
    assert shown["status"] == "succeeded"
    assert project.json("lineage", "sync")["complete"]
    assert project.json("lineage", "sync")["runs"] == {}
    assert_exact(tmp_path / "mlflow.db", shown)


def test_lineage_of_the_registered_model_is_the_whole_ancestor_graph(away: Run) -> None:
    project, shown, _ = away
    made = outputs(shown)
    graph = project.json("lineage", REGISTERED)
    nodes = {node["id"]: node for node in graph["nodes"]}
    root = nodes[graph["root"]]
    assert (root["kind"], root["version"], root["aliases"]) == ("registered", 1, ["candidate"])
    assert root["digest"] == made["select.model"]["digest"]

    stages = {node["stage"]: node for node in nodes.values() if node["kind"] == "stage"}
    assert set(stages) == {stage["name"] for stage in shown["stages"]} - {LAST}
    assert set(graph["datasets"]) == {made[name]["digest"] for name in DATASETS}
    code = open_store(project.store).get(f"ledger/{shown['run_id']}/run.json")["code"]
    for name, node in stages.items():
        assert node["seed"] == 0
        assert node["code"]["version"] and code.items() <= node["code"].items()
        assert len(node["code"]["lock"]) == 64
        assert f"components/{node['component']}/run.py" in node["code"]["files"], name
    assert stages["rl"]["params"]["steps"] == 6
    assert stages["rl"]["params"]["temperature"] == 1.0, "a default that nobody set made the model, too"
    assert "temperature" not in stages["rl"]["given_params"]

    edges = {(edge["from"], edge["to"], edge["port"]) for edge in graph["edges"]}
    assert (stages["corpus"]["id"], made["corpus.dataset"]["digest"], "dataset") in edges
    assert (made["corpus.dataset"]["digest"], stages["base"]["id"], "dataset") in edges
    assert (made["select.model"]["digest"], graph["root"], "") in edges
    assert reached(graph, graph["root"], backward=True) == set(nodes)


def test_the_corpus_leads_to_the_registered_model(away: Run) -> None:
    project, shown, _ = away
    made = outputs(shown)
    graph = project.json("lineage", f"{shown['run_id']}:corpus.dataset", "--descendants")
    assert graph["root"] == made["corpus.dataset"]["digest"]
    assert made["select.model"]["digest"] in graph["models"]
    stages = {node["stage"] for node in graph["nodes"] if node["kind"] == "stage"}
    assert stages == {stage["name"] for stage in shown["stages"]} - {"heldout", "dev", "corpus", "demos"}
    registered = [node for node in graph["nodes"] if node["kind"] == "registered"]
    assert [(node["name"], node["version"], node["aliases"]) for node in registered] == [(REGISTERED, 1, ["candidate"])]
    assert reached(graph, graph["root"], backward=False) == {node["id"] for node in graph["nodes"]}


def outputs(shown: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return "stage.port" -> {type, digest, uri} of everything that a run made."""
    return {f"{stage['name']}.{port}": output for stage in shown["stages"] for port, output in stage["outputs"].items()}


def reached(graph: dict[str, Any], start: str, *, backward: bool) -> set[str]:
    """Return the nodes that edges lead to from `start`, one way."""
    near, far = ("to", "from") if backward else ("from", "to")
    found, fresh = {start}, {start}
    while fresh:
        fresh = {edge[far] for edge in graph["edges"] if edge[near] in fresh} - found
        found |= fresh
    return found


def kill_in(project: Project, stage: str) -> None:
    """Run the recipe and SIGKILL every process of it as soon as a stage has told something of its training."""
    process = project.start("run", str(MICRO), "--json")
    deadline = time.monotonic() + KILL_BEFORE_SECONDS
    while not any(Path(project.store).glob(f"spool/*/stages/{stage}/*/rows-*.json")):
        assert process.poll() is None and time.monotonic() < deadline, f"never came to {stage}"
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def assert_exact(database: Path, shown: dict[str, Any]) -> None:
    """Check that MLflow holds one run of the recipe, whole, and nothing of it twice."""
    names = [stage["name"] for stage in shown["stages"]]
    runs = rows_of(database, "select run_uuid, name, status, lifecycle_stage from runs")
    assert sorted(row[1:] for row in runs) == sorted((name, "FINISHED", "active") for name in [shown["run_id"], *names])
    ids = {name: run for run, name, *_ in runs}
    parents = rows_of(database, "select run_uuid, value from tags where key = 'mlflow.parentRunId'")
    assert sorted(parents) == sorted((ids[name], ids[shown["run_id"]]) for name in names)

    recorded: dict[str, list[tuple[str, int, float]]] = {}
    costs: dict[str, list[tuple[str, int, float]]] = {}
    for run, *row in rows_of(database, "select run_uuid, key, step, value from metrics"):
        kind = costs if row[0].startswith("cost/") else recorded
        kind.setdefault(run, []).append((row[0], row[1], row[2]))
    for stage in shown["stages"]:
        rows = sorted(recorded.get(ids[stage["name"]], []))
        assert rows == sorted([*headlines(stage), *curves(stage)]), stage["name"]
        assert len({row[:2] for row in rows}) == len(rows), "one value for each key and step"
    assert all(len({row[:2] for row in rows}) == len(rows) for rows in costs.values()), "each cost once"
    attempts = {run: next(row[2] for row in rows if row[0] == "cost/attempts") for run, rows in costs.items()}
    whole = attempts.pop(ids[shown["run_id"]])
    assert attempts.keys() == {ids[name] for name in names} and whole == sum(attempts.values()) >= len(names)
    last = next(stage for stage in shown["stages"] if stage["name"] == LAST)
    assert sorted(recorded[ids[shown["run_id"]]]) == sorted(headlines(last, f"{LAST}/"))

    params = rows_of(database, f"select key, value from params where run_uuid = '{ids['rl']}'")
    assert {("steps", "6"), ("temperature", "1.0")} <= set(params), "what the recipe set, and what it left as it is"

    logged = rows_of(
        database,
        "select r.name, p.tag_value, d.tag_value, m.model_type, m.status, m.lifecycle_stage from logged_models m"
        " join runs r on r.run_uuid = m.source_run_id"
        " join logged_model_tags p on p.model_id = m.model_id and p.tag_key = 'posttrain.port'"
        " join logged_model_tags d on d.model_id = m.model_id and d.tag_key = 'posttrain.digest'",
    )
    ready = {2: "READY"}
    assert sorted((*row[:4], ready[row[4]], row[5]) for row in logged) == sorted(
        (*name.split("."), output["digest"], output["type"], "READY", "active")
        for name, output in outputs(shown).items()
        if output["type"] in LOGGED
    )
    assert rows_of(database, "select count(*) from logged_models") == [(len(logged),)]
    version = "select v.name, v.version, t.value from model_versions v join model_version_tags t using (name, version)"
    selected = outputs(shown)["select.model"]["digest"]
    assert rows_of(database, f"{version} where t.key = 'posttrain.digest'") == [(REGISTERED, 1, selected)]
    assert rows_of(database, "select count(*) from model_versions") == [(1,)]
    assert rows_of(database, "select name, alias, version from registered_model_aliases") == [
        (REGISTERED, "candidate", 1)
    ]
    sources = [json.loads(row[0])["digest"] for row in rows_of(database, "select dataset_source from datasets")]
    read = [*DATASETS, "rl.rollouts"]
    assert sorted(sources) == sorted(outputs(shown)[name]["digest"] for name in read)


def headlines(stage: dict[str, Any], prefix: str = "") -> list[tuple[str, int, float]]:
    """Return a stage's own metrics as MLflow's rows: key, step, value."""
    return [(mlflow_name(prefix + name), 0, value) for name, value in stage["metrics"].items()]


def curves(stage: dict[str, Any]) -> list[tuple[str, int, float]]:
    """Return the rows of the history that a stage left among its metrics, if it trains."""
    history = Path(stage["outputs"]["metrics"]["uri"]) / "history.jsonl"
    lines = history.read_text().splitlines() if history.exists() else []
    return [
        (mlflow_name(f"train/{name}"), row["step"], value)
        for row in map(json.loads, lines)
        for name, value in row.items()
        if name != "step"
    ]
