"""The works of a stage, field by field, and the rights that its driver needs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from pipelines.engines.driver.kinds import JOB, JOBSET, TRAINJOB, Kind
from pipelines.engines.driver.names import work_name
from tests.pipelines.engines.kubeflow.conftest import GPU
from tests.pipelines.engines.kubeflow.examples import POOLS, compiled, executor_of, parsed
from tests.pipelines.engines.kubeflow.nodes import job, manifest, pool

POD_SCHEMAS = ("1.33", "1.34", "1.35")
FOLDER = Path(__file__).parent / "works"
MOMENT = "2026-11-23T08:00:00.000000Z"


@pytest.fixture(autouse=True)
def where(toy_catalog: None, cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy components and pools of every kind."""
    (tmp_path / "pools.yaml").write_text(POOLS)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))


@pytest.mark.parametrize("kind", [JOB, JOBSET, TRAINJOB], ids=lambda kind: kind.name)
def test_a_work_is_what_was_looked_through(kind: Kind) -> None:
    golden = FOLDER / f"{kind.name.lower()}.yaml"
    found = manifest(kind, training_runtime="posttrain-torch")
    if os.environ.get("WRITE_GOLDEN"):
        golden.write_text(yaml.safe_dump(found, sort_keys=False))
    assert found == yaml.safe_load(golden.read_text())


@pytest.mark.parametrize("version", POD_SCHEMAS)
def test_every_field_of_jobs_and_pods_is_known(version: str) -> None:
    kubernetes_validate.validate(manifest(JOB), version, strict=True)
    template = manifest()["spec"]["replicatedJobs"][0]["template"]
    batch_job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **template}
    kubernetes_validate.validate(batch_job, version, strict=True)
    metadata = {"name": "x", "namespace": "posttrain", "labels": {"posttrain.dev/role": "driver"}}
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 90, "acquireTime": MOMENT, "renewTime": MOMENT}
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
    kubernetes_validate.validate(lease, version, strict=True)
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate({**lease, "spec": {**spec, "holder": "me"}}, version, strict=True)


@pytest.mark.parametrize("kind", [JOBSET, TRAINJOB], ids=lambda kind: kind.name)
def test_every_field_of_custom_resources_is_known(kind: Kind) -> None:
    schema = json.loads((FOLDER / f"{kind.name.lower()}.schema.json").read_text())
    found = manifest(kind, training_runtime="posttrain-torch", queue="gpus")
    jsonschema.validate(found, schema)
    assert found["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "gpus"
    with pytest.raises(jsonschema.ValidationError, match="suspended"):
        jsonschema.validate({**found, "spec": {**found["spec"], "suspended": True}}, schema)


def test_a_trainjob_runs_what_a_jobset_runs() -> None:
    trainjob = manifest(TRAINJOB, training_runtime="posttrain-torch")["spec"]
    pod = manifest()["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    trainer = trainjob["trainer"]
    for name in ("image", "command", "args", "env"):
        assert trainer[name] == container[name]
    assert (trainer["resourcesPerNode"], trainer["numNodes"]) == (container["resources"], 2)
    (patch,) = trainjob["runtimePatches"][0]["trainingRuntimeSpec"]["template"]["spec"]["replicatedJobs"]
    patched = patch["template"]["spec"]["template"]["spec"]
    for name in ("serviceAccountName", "nodeSelector", "tolerations", "volumes", "securityContext"):
        assert patched[name] == pod[name]
    assert patched["containers"][0]["securityContext"]["readOnlyRootFilesystem"]


def test_nodes_meet_at_the_first_pods_name_and_wait_for_hours() -> None:
    found = manifest()
    (group,) = found["spec"]["replicatedJobs"]
    command, name = group["template"]["spec"]["template"]["spec"]["containers"][0]["command"], found["metadata"]["name"]
    assert f"--master-addr={name}-node-0-0.{name}" in command and "--rdzv-conf=timeout=21600" in command
    assert not [word for word in command if "c10d" in word]


def test_the_pods_of_two_tries_and_two_stages_have_names_of_their_own() -> None:
    one = job("s3://bucket/store")
    others = [one.model_copy(update={"stage": "base2"}), one.model_copy(update={"run_id": "another"})]
    names = {work_name(one, 0), work_name(one, 1), *(work_name(other, 0) for other in others)}
    assert len(names) == 4
    long = work_name(one.model_copy(update={"stage": "a_very-long-name-of-a-stage-that-goes-on-and-on"}), 0)
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
    for kind in ("jobs", "jobsets", "trainjobs"):
        assert {(kind, verb) for verb in ("create", "get", "list", "watch", "delete")} <= rights
    assert {("leases", verb) for verb in ("create", "get", "list", "update", "delete")} <= rights
    assert {("pods", "list"), ("pods/log", "get"), ("events", "list")} <= rights
