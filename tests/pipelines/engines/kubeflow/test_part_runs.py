"""Runs of parts, container by container, on a Kubeflow over HTTP: the same digests as in one pipeline, and one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from components.runtime.ledger.ledger import load_run
from components.runtime.ledger.shown import show_json
from components.runtime.store import open_store
from pipelines.engines.kubeflow.client.account import Account
from pipelines.engines.kubeflow.client.api import Client
from pipelines.engines.kubeflow.client.run import KubeflowRun
from pipelines.engines.kubeflow.names import part_key, run_key
from tests.pipelines.engines.kubeflow.examples import ROOT, project_environment
from tests.support.command_line import digests
from tests.support.kubeflow_api import KubeflowApi, kubeflow_api
from tests.support.pipeline_runner import PipelineRun, load_pipeline

RECIPE = ROOT / "tests" / "pipelines" / "engines" / "airflow" / "recipes" / "numbers.yaml"
IN_CLUSTER = "http://ml-pipeline.kubeflow:8888"
COMPILES = """\
import sys
from pathlib import Path
from pipelines.engines.kubeflow.compiler import parts, size
from tests.pipelines.engines.kubeflow.examples import compiled
Path(sys.argv[1]).write_text(compiled(sys.argv[3]))
parts.STAGES, size.LIMIT_BYTES = 2, size.ROOM_BYTES + 57_800
Path(sys.argv[2]).write_text(compiled(sys.argv[3]))
"""
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Variables of a folder with a recipe that was compiled twice: whole, and in three parts."""
    folder = tmp_path_factory.mktemp("parts")
    environment = project_environment(folder)
    files = [str(folder / name) for name in ("whole.yaml", "parts.yaml")]
    subprocess.run([sys.executable, "-c", COMPILES, *files, RECIPE], env={**os.environ, **environment}, check=True)
    return environment


@pytest.fixture
def api(project: dict[str, str], tmp_path: Path) -> Iterator[KubeflowApi]:
    """A Kubeflow that carries containers out."""
    with kubeflow_api(tmp_path / "pods", carry_out=True, environment=project) as served:
        yield served


def submitted(api: KubeflowApi, project: dict[str, str], store: Path, **arguments: Any) -> tuple[Client, str]:
    """Submit the run of parts."""
    text = (Path(project["POSTTRAIN_POOLS"]).parent / "parts.yaml").read_text()
    assert text.count(IN_CLUSTER) == 3
    client = Client(Account(api.url))
    given = {"posttrain_store": str(store), **arguments}
    return client, client.submit(text.replace(IN_CLUSTER, api.url), given, name="parts", experiment="numbers")


def ended(api: KubeflowApi, run: str) -> str:
    """Return the state in which a run ends."""
    served = api.runs[run]
    assert served.thread is not None and served.work is not None
    served.thread.join(500)
    return served.work.state


def shown(store: Path, kubeflow_run: str) -> dict[str, Any]:
    """Return the `show --json` of a run."""
    opened = open_store(str(store))
    return show_json(load_run(opened, opened.get(run_key(kubeflow_run))["run_id"]))


def logs(api: KubeflowApi) -> list[str]:
    """Return what all tasks have said."""
    return [task.log for run in api.runs.values() if run.work for task in run.work.tasks.values()]


def test_parts_make_what_one_pipeline_makes(
    api: KubeflowApi, project: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A middle part fails at first: the retry of the whole goes on in the same runs."""
    original, lost = PipelineRun._attempt, ["again"]

    def attempt(self: PipelineRun, task: Any, *rest: Any) -> int:
        return 137 if lost and task.name == lost[0] and lost.pop() else original(self, task, *rest)

    monkeypatch.setattr(PipelineRun, "_attempt", attempt)
    store = tmp_path / "store"
    client, whole = submitted(api, project, store, factor=4)
    assert ended(api, whole) == "FAILED", logs(api)
    found = shown(store, whole)
    assert (found["status"], [stage["name"] for stage in found["stages"] if stage["status"] == "done"]) == (
        "failed",
        ["base", "train"],
    )
    opened = open_store(str(store))
    part_runs = [(opened.get(part_key(whole, number)) or {}).get("run_id") for number in (1, 2, 3)]
    assert part_runs[2] is None and [api.runs[part].work.state for part in part_runs[:2]] == ["SUCCEEDED", "FAILED"]
    followed = KubeflowRun([], opened, client, whole).look()
    assert (followed.run_id, followed.ended) == (found["run_id"], True)

    client.retry(whole)
    assert ended(api, whole) == "SUCCEEDED", logs(api)
    assert len(api.runs) == 4 and [run.verbs for run in api.runs.values()] == [["retry"], [], ["retry"], []]
    found = shown(store, whole)
    single = load_pipeline((Path(project["POSTTRAIN_POOLS"]).parent / "whole.yaml").read_text())
    given = {"posttrain_store": project["POSTTRAIN_STORE"], "factor": 4}
    alone = PipelineRun(single, tmp_path / "alone", "k-alone", given, environment=project)
    assert alone.run() == "SUCCEEDED"
    assert digests(found) == digests(shown(Path(project["POSTTRAIN_STORE"]), "k-alone")) and digests(found)
    assert found["status"] == "succeeded"
    pages = api.runs[whole].work.tasks["posttrain-end"].written
    assert "| train | done | miss |" in pages["links"] and found["run_id"] in pages["report"], "one report of all"


def test_a_run_that_is_stopped_stops_its_part(api: KubeflowApi, project: dict[str, str], tmp_path: Path) -> None:
    store = tmp_path / "store"
    client, whole = submitted(api, project, store, posttrain_set=["stages.train.with.spin=true"])
    part = None
    while part is None or "train" not in client.state(part).running:
        assert api.runs[whole].thread.is_alive(), logs(api)
        api.runs[whole].thread.join(0.2)
        part = (open_store(str(store)).get(part_key(whole, 1)) or {}).get("run_id")
    assert KubeflowRun([], open_store(str(store)), client, whole).look().ended is False
    client.terminate(whole)
    assert ended(api, whole) == "CANCELED", logs(api)
    assert ended(api, part) == "CANCELED" and api.runs[part].verbs == ["terminate"]
    assert len(api.runs) == 2, "no part came after it"
    assert json.dumps(logs(api)).count("stopping Kubeflow's run") == 1
