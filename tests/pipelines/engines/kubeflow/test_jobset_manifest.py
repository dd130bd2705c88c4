"""The JobSet of a stage on several nodes, field by field, and the rights that its driver needs."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from pipelines.engines.kubeflow.jobsets.manifest import jobset_name
from tests.pipelines.engines.kubeflow.conftest import GPU
from tests.pipelines.engines.kubeflow.examples import POOLS, compiled, executor_of, parsed
from tests.pipelines.engines.kubeflow.nodes import job, manifest, pool

POD_SCHEMAS = ("1.31", "1.32")


@pytest.fixture(autouse=True)
def where(toy_catalog: None, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy components and pools of every kind."""
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))


def test_the_jobset_is_what_was_written_by_hand() -> None:
    wanted = yaml.safe_load((Path(__file__).parent / "jobsets" / "nodes.yaml").read_text())
    assert manifest() == wanted


def test_every_field_is_known() -> None:
    schema = json.loads((Path(__file__).parent / "jobset.schema.json").read_text())
    found = manifest()
    jsonschema.validate(found, schema)
    template = found["spec"]["replicatedJobs"][0]["template"]
    for version in POD_SCHEMAS:
        batch_job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **template}
        kubernetes_validate.validate(batch_job, version, strict=True)
    with pytest.raises(jsonschema.ValidationError, match="subdomains"):
        jsonschema.validate({**found, "spec": {**found["spec"], "network": {"subdomains": "x"}}}, schema)


def test_the_pods_of_two_attempts_and_two_stages_have_names_of_their_own() -> None:
    one = job("s3://bucket/store")
    others = [one.model_copy(update={"stage": "base2"}), one.model_copy(update={"run_id": "another"})]
    names = {jobset_name(one, 0), jobset_name(one, 1), *(jobset_name(other, 0) for other in others)}
    assert len(names) == 4
    long = jobset_name(one.model_copy(update={"stage": "a_very-long-name-of-a-stage-that-goes-on-and-on"}), 0)
    assert len(f"{long}-node-0-15-abcde") <= 63


def test_what_does_not_train_in_parallel_gets_one_node(tmp_path: Path) -> None:
    (tmp_path / "plain.yaml").write_text("name: plain\nstages: {data: {uses: curate, pool: pair}}\n")
    pipeline, platform = parsed(compiled(tmp_path / "plain.yaml"))
    container = pipeline["deploymentSpec"]["executors"][executor_of(pipeline, "data")]["container"]
    assert container["command"][2] == "pipelines.engines.kubeflow.stage"
    assert container["resources"]["accelerator"]["resourceCount"] == "8"
    assert platform[executor_of(pipeline, "data")]["nodeSelector"]["labels"] == pool().node_selector


def test_the_pods_name_secrets_and_hold_none() -> None:
    text = json.dumps(manifest())
    sources = manifest()["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]["containers"][0][
        "envFrom"
    ]
    assert [item["secretRef"]["name"] for item in sources if "secretRef" in item] == ["store-access", "hub"]
    assert "SECRET_ACCESS_KEY" not in text and GPU in text


def test_the_task_may_do_what_it_does_and_the_binding_is_valid() -> None:
    folder = Path(__file__).parents[4] / "infra" / "kubernetes"
    binding = yaml.safe_load((folder / "kubeflow" / "rbac.yaml").read_text())
    accounts = list(yaml.safe_load_all((folder / "base" / "accounts.yaml").read_text()))
    (role,) = [item for item in accounts if item["kind"] == "Role"]
    assert (binding["roleRef"]["kind"], binding["roleRef"]["name"]) == ("Role", role["metadata"]["name"])
    kubernetes_validate.validate(binding, POD_SCHEMAS[-1], strict=True)
    rights = {(resource, verb) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}
    assert {("jobsets", verb) for verb in ("create", "get", "delete")} <= rights
    assert {("pods", "list"), ("pods/log", "get")} <= rights
