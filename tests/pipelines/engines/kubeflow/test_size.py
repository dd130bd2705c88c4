"""What a pipeline becomes on a cluster: tasks that are alike share their parts, and the whole fits one object."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from components.contract.errors import InputError
from components.runtime.store import open_store
from pipelines.engines.kubeflow.compiler import compiler, ir, size
from pipelines.engines.kubeflow.compiler.sharing import share
from pipelines.engines.kubeflow.compiler.size import (
    FIXED_BYTES,
    METADATA_BYTES,
    TEMPLATE_BYTES,
    workflow_bytes,
)
from pipelines.engines.kubeflow.engine import KubeflowEngine
from pipelines.engines.start import plan_run
from pipelines.plan.plan import build_plan
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.engines.kubeflow.examples import POOLS, RECIPES, compiled, parsed

ROOT = Path(__file__).parents[4]


@pytest.fixture
def toys(toy_catalog: None, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy components, and pools of every kind."""
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))
    monkeypatch.chdir(ROOT)


def parts(pipeline: dict[str, Any], executors: dict[str, Any]) -> dict[str, Any]:
    """Return task -> all that Kubeflow knows of it, with the names of what it refers to resolved."""
    found = {}
    for name, component in [("root", pipeline["root"]), *pipeline["components"].items()]:
        for task, spec in component.get("dag", {}).get("tasks", {}).items():
            mine = pipeline["components"][spec["componentRef"]["name"]]
            label = mine.get("executorLabel")
            container = pipeline["deploymentSpec"]["executors"][label]["container"] if label else None
            known = {key: value for key, value in mine.items() if key not in ("executorLabel", "dag")}
            told = {key: value for key, value in spec.items() if key != "componentRef"}
            found[f"{name.partition('-')[0]}/{task}"] = [told, known, _plain(container), executors.get(label)]
    return found


def _plain(container: dict[str, Any] | None) -> dict[str, Any] | None:
    if container is None:
        return None
    env = [item for item in container.get("env", []) if item["name"] != "POSTTRAIN_TASKS"]
    return {**container, "env": env}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_sharing_changes_no_task(toys: None, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shared, executors = parsed(compiled(path))
    monkeypatch.setattr(ir, "share", lambda pipeline, platform: (pipeline, platform))
    alone, settings = parsed(compiled(path))
    assert parts(shared, executors) == parts(alone, settings)
    assert len(shared["deploymentSpec"]["executors"]) <= len(alone["deploymentSpec"]["executors"])


@pytest.mark.parametrize("name", ["quickstart-seeds", "methods/dapo"])
def test_no_two_components_have_one_container(name: str) -> None:
    pipeline, _ = parsed(compiled(name))
    executors = pipeline["deploymentSpec"]["executors"]
    containers = [json.dumps(one["container"], sort_keys=True) for one in executors.values()]
    assert len(set(containers)) == len(containers), "Kubeflow's server would give one the inputs of the other"


def test_components_of_one_container_are_told_apart() -> None:
    def component(label: str, inputs: list[str]) -> dict[str, Any]:
        given = {name: {"artifactType": {"schemaTitle": "system.Model"}} for name in inputs}
        return {"executorLabel": label, "inputDefinitions": {"artifacts": given}}

    tasks = {name: {"componentRef": {"name": f"comp-{name}"}} for name in ("one", "two", "three")}
    wired = {"one": ["model"], "two": ["model", "dataset"], "three": ["model"]}
    pipeline = {
        "components": {f"comp-{name}": component(f"exec-{name}", wired[name]) for name in tasks},
        "deploymentSpec": {"executors": {f"exec-{name}": {"container": {"image": "i"}} for name in tasks}},
        "root": {"dag": {"tasks": tasks}},
    }
    shared, _ = share(pipeline, {})
    named = {name: task["componentRef"]["name"] for name, task in shared["root"]["dag"]["tasks"].items()}
    assert named == {"one": "comp-one", "two": "comp-two", "three": "comp-one"}
    assert shared["deploymentSpec"]["executors"] == {
        "exec-one": {"container": {"image": "i"}},
        "exec-two": {"container": {"image": "i", "env": [{"name": "POSTTRAIN_TASKS", "value": "two"}]}},
    }


TWO_NODES = ["train=s3://data/train.jsonl", "test=s3://data/test.jsonl", "pool=h100x16"]


@pytest.mark.parametrize(("name", "overrides", "nodes"), [("quickstart", [], 1), ("gsm8k", TWO_NODES, 2)])
def test_what_is_shipped_is_strictly_of_kubeflows_form_and_fits(name: str, overrides: list[str], nodes: int) -> None:
    recipe = load_recipe(name, overrides, whole=True)
    assert max(recipe.pools[stage.pool].nodes for stage in recipe.stages) == nodes
    pipeline, executors = parsed(compiled(name, overrides=overrides))
    platform = {"platforms": {"kubernetes": {"deploymentSpec": {"executors": executors}}}}
    assert size.fits(workflow_bytes(pipeline, platform))


def test_a_pipeline_that_does_not_fit_is_said_by_plan_and_by_compile(
    toys: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = RECIPES[0]
    assert "sdkVersion" in compiled(path)
    monkeypatch.setattr(size, "LIMIT_BYTES", size.ROOM_BYTES + 5_000)
    monkeypatch.setattr(compiler, "CERTAINLY_FIT", 1)
    said = r"engine kubeflow cannot take stage 'base': alone its workflow would have some [\d,]+ bytes"
    with pytest.raises(InputError, match=said):
        compiled(path)
    with pytest.raises(InputError, match=said):
        plan_run(load_recipe(str(path)), open_store("s3://bucket/store"), engine="kubeflow")
    monkeypatch.setattr(size, "LIMIT_BYTES", size.ROOM_BYTES + 20_000)  # enough for a part, not for the run of two
    said = r"engine kubeflow cannot take 2 stages in one run: .* some [\d,]+ bytes, and a cluster takes [\d,]+ beside"
    with pytest.raises(InputError, match=said):
        compiled(path)
    with pytest.raises(InputError, match=said):
        plan_run(load_recipe(str(path)), open_store("s3://bucket/store"), engine="kubeflow")
    monkeypatch.setattr(compiler, "CERTAINLY_FIT", 2)
    assert list(KubeflowEngine().refusals(build_plan(load_recipe(str(path)), "s3://bucket/store", "plan"))) == []


def test_the_size_of_a_workflow_by_hand() -> None:
    container = {"image": "i"}
    pipeline = {
        "components": {"comp-a": {"executorLabel": "exec-a"}},
        "deploymentSpec": {"executors": {"exec-a": {"container": container}}},
        "root": {"dag": {"tasks": {"a": {"componentRef": {"name": "comp-a"}}}}},
    }
    platform = {
        "platforms": {
            "kubernetes": {"deploymentSpec": {"executors": {"exec-a": {"podMetadata": {"labels": {"l": "v"}}}}}}
        }
    }
    key = hashlib.sha256(b'{"image":"i"}').hexdigest()
    written = [
        r'{"name":"components-root","value":"{\"dag\":{\"tasks\":{\"a\":{\"componentRef\":{\"name\":\"comp-a\"}}}}}"},',
        rf'{{"name":"components-{key}","value":"{{\"executorLabel\":\"exec-a\"}}"}},',
        rf'{{"name":"implementations-{key}","value":"{{\"image\":\"i\"}}"}},',
        r'{"name":"kubernetes-comp-a","value":"{\"podMetadata\":{\"labels\":{\"l\":\"v\"}}}"},',
        r'{"name":"a-driver","template":"system-container-driver","depends":"","arguments":{"parameters":[',
        rf'{{"name":"component","value":"{{{{workflow.parameters.components-{key}}}}}"}},',
        r'{"name":"task","value":"{\"componentRef\":{\"name\":\"comp-a\"}}"},{"name":"task-name","value":"a"},',
        r'{"name":"parent-dag-id","value":"{{inputs.parameters.parent-dag-id}}"},',
        rf'{{"name":"container","value":"{{{{workflow.parameters.implementations-{key}}}}}"}},',
        r'{"name":"kubernetes-config","value":"{{workflow.parameters.kubernetes-comp-a}}"}]}},',
        r'{"name":"a","template":"metadata-0-1-system-container-executor","depends":"a-driver.Succeeded",',
        r'"arguments":{"parameters":[{"name":"pod-spec-patch",',
        r'"value":"{{tasks.a-driver.outputs.parameters.pod-spec-patch}}"},{"name":"cached-decision",',
        r'"value":"{{tasks.a-driver.outputs.parameters.cached-decision}}"},',
        r'{"name":"pod-metadata-label-key","value":"l"},{"name":"pod-metadata-label-val","value":"v"}]}}',
        r'{"name":"runtime-config","value":"{\"parameterValues\":{}}"}',
    ]
    fixed = FIXED_BYTES + TEMPLATE_BYTES + METADATA_BYTES
    assert abs(workflow_bytes(pipeline, platform) - fixed - len("".join(written))) < 32
