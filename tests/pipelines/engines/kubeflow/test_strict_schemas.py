"""What is compiled, and the works of its tasks, against the schemas of Kubeflow, Kubernetes, JobSet, Trainer and Kueue.

A field that a schema does not know is an error everywhere.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import kubernetes_validate
import pytest
import yaml

from pipelines.engines.driver.command import settings_of
from pipelines.engines.driver.manifests.work import work_kind, work_manifest
from pipelines.engines.driver.names import work_name
from pipelines.engines.kubeflow.compiler.size import fits, workflow_bytes
from pipelines.engines.kubeflow.names import task_name
from pipelines.plan.plan import build_plan
from pipelines.recipe.pools import Pool
from pipelines.recipe.recipe import load_recipe
from tests.pipelines.engines.kubeflow.examples import compiled, executor_of, parsed
from tests.pipelines.engines.kubeflow.nodes import OWNER

ROOT = Path(__file__).parents[4]
WORKS = Path(__file__).parent / "works"
VERSIONS = ("1.33", "1.34", "1.35")
TWO_NODES = ["train=s3://data/train.jsonl", "test=s3://data/test.jsonl", "pool=h100x16"]
SEEDS = f"matrix.seed={list(range(17))}"
QUEUE = "kueue.x-k8s.io/queue-name"


@pytest.fixture(params=[None, "posttrain-torch"], ids=["jobset", "trainjob"])
def runtime(request: pytest.FixtureRequest) -> str | None:
    """What several nodes become: the pools' `training_runtime`."""
    name: str | None = request.param
    return name


@pytest.fixture(scope="module")
def local_queues() -> set[str]:
    """The queues of Kueue that are there to wait in; Kueue's own schema knows all that is said of them."""
    schema = json.loads((ROOT / "tests" / "infra" / "kueue.schema.json").read_text())
    folder = ROOT / "infra" / "kubernetes" / "kueue"
    manifests = [one for name in ("queues", "flavours") for one in yaml.safe_load_all((folder / f"{name}.yaml").open())]
    for manifest in manifests:
        jsonschema.validate(manifest, schema)
    return {one["metadata"]["name"] for one in manifests if one["kind"] == "LocalQueue"}


def works(name: str, overrides: list[str]) -> list[dict[str, Any]]:
    """Return the works that the tasks of a compiled recipe make first, from what the pipeline tells them."""
    text = compiled(name, overrides=overrides)
    pipeline, _ = parsed(text)
    assert fits(workflow_bytes(*yaml.load_all(text, yaml.CSafeLoader)))
    found = []
    for job in build_plan(load_recipe(name, overrides), "s3://bucket/store", "nightly-1").jobs:
        executor = pipeline["deploymentSpec"]["executors"][executor_of(pipeline, task_name(job.stage))]
        arguments = executor["container"]["args"]
        if "--pool" not in arguments:
            continue
        pool = Pool.model_validate_json(arguments[arguments.index("--pool") + 1])
        settings = settings_of(arguments[arguments.index("--cluster") + 1])
        found.append(work_manifest(work_kind(job, pool), job, pool, settings, work_name(job, 0), OWNER))
    return found


def check(manifest: dict[str, Any], local_queues: set[str]) -> str:
    """Check one work by its schema, and its queue; return its kind."""
    kind: str = manifest["kind"]
    if kind == "Job":
        for version in VERSIONS:
            kubernetes_validate.validate(manifest, version, strict=True)
    else:
        jsonschema.validate(manifest, json.loads((WORKS / f"{kind.lower()}.schema.json").read_text()))
    assert manifest["metadata"]["labels"][QUEUE] in local_queues
    return kind


def test_quickstart(cluster: None, local_queues: set[str]) -> None:
    assert works("quickstart", []) == [], "its stages run in their tasks"
    found = works("quickstart", ["defaults.pool=cpu-large"])
    assert len(found) > 8 and {check(one, local_queues) for one in found} == {"Job"}


def test_gsm8k_on_two_nodes(
    cluster: None,
    local_queues: set[str],
    runtime: str | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pools = yaml.safe_load((ROOT / "infra" / "pools.yaml").read_text())
    if runtime:
        pools["h100x16"]["training_runtime"] = runtime
    (tmp_path / "pools.yaml").write_text(yaml.safe_dump(pools))
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))
    kinds = [check(one, local_queues) for one in works("gsm8k", TWO_NODES)]
    assert set(kinds) == {"Job", "TrainJob" if runtime else "JobSet"}
    assert kinds.count("TrainJob" if runtime else "JobSet") == 2


def test_two_hundred_stages(cluster: None, local_queues: set[str]) -> None:
    overrides = [SEEDS, "defaults.pool=cpu-large"]
    assert len(load_recipe("quickstart-seeds", overrides, whole=True).stages) >= 200
    found = works("quickstart-seeds", overrides)
    assert len(found) >= 200
    shapes = {json.dumps(_shape(one), sort_keys=True): one for one in found}
    assert {check(one, local_queues) for one in shapes.values()} == {"Job"}


def _shape(value: Any) -> Any:
    """Return the fields and types of a manifest without its texts, which strict schemas take as they are."""
    if isinstance(value, dict):
        return {key: _shape(one) for key, one in value.items()}
    return [_shape(one) for one in value] if isinstance(value, list) else type(value).__name__
