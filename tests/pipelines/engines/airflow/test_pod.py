"""Works of stages, built without a cluster: against specifications written by hand, and against Kubernetes' schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

from components.contract.errors import InputError
from components.contract.job import Job
from pipelines.engines.airflow.tasks.pod_task import StagePod
from pipelines.engines.driver.manifests.batch import batch_manifest
from pipelines.engines.driver.manifests.work import work_kind, work_manifest
from pipelines.engines.driver.names import work_name
from pipelines.engines.shared.pod import PodSettings, refusals, refuse_pods
from pipelines.recipe.pools import Pool, load_pools

RUN = "nightly-20261121-120000-ab12"
CPU, GPU, HOPPER = (
    f"registry.example/posttrain/{name}@sha256:{digit * 64}"
    for name, digit in (("cpu", "1"), ("gpu", "2"), ("hopper", "3"))
)
SETTINGS = PodSettings.read({"POSTTRAIN_IMAGE_CPU": CPU, "POSTTRAIN_IMAGE_GPU": GPU})
ELSEWHERE = PodSettings.read(
    {
        "POSTTRAIN_IMAGE_CPU": CPU,
        "POSTTRAIN_IMAGE_GPU": GPU,
        "POSTTRAIN_POD_NAMESPACE": "training",
        "POSTTRAIN_POD_SERVICE_ACCOUNT": "trainer",
        "POSTTRAIN_POD_SECRETS": "store-access, hub-token",
        "POSTTRAIN_POD_CONFIG_MAPS": "store-endpoint",
    }
)
VERSIONS = ("1.33", "1.34", "1.35")


def job(stage: str, component: str, pool: str, pools: dict[str, Pool], **more: Any) -> Job:
    """Return a job of the recipe `nightly`."""
    fixed = {"recipe": "nightly", "run_id": RUN, "store": "s3://bucket/store", "params": {}, "inputs": {}, "seed": 0}
    resources = pools[pool].resources(pool)
    return Job(**{**fixed, "stage": stage, "component": component, "resources": resources, **more})


def work(one: Job, pool: Pool, settings: PodSettings) -> dict[str, Any]:
    """Return the work that the first try at a job is."""
    owner = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": "posttrain-x", "uid": "1"}
    return work_manifest(work_kind(one, pool), one, pool, settings, work_name(one, 0), owner)


def spec(one: Job, pool: Pool, settings: PodSettings) -> dict[str, Any]:
    """Return the pod that Kubernetes makes of a job on one node, but for its name and its stage's key."""
    template = batch_manifest(one, pool, settings, "x", "key", {})["spec"]["template"]
    assert template["metadata"]["labels"].pop("posttrain.dev/stage-key") == "key"
    metadata = {**template["metadata"], "namespace": settings.namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def examples() -> dict[str, tuple[Job, Pool, PodSettings]]:
    """Return the three examples of the folder pods/, by pool."""
    pools = load_pools()
    own = pools["h100x8"].model_copy(update={"image": HOPPER, "priority_class": "training"})
    return {
        "cpu-large": (
            job("raw_data", "curate", "cpu-large", pools, timeout_seconds=89.5),
            pools["cpu-large"],
            SETTINGS,
        ),
        "l4x1-spot": (job("evaluate-seed-1", "evaluate", "l4x1-spot", pools), pools["l4x1-spot"], ELSEWHERE),
        "h100x8": (job("rl", "rl", "h100x8", pools, timeout_seconds=7200), own, SETTINGS),
    }


def differences(found: Any, wanted: Any, at: str = "") -> Iterator[str]:
    """Yield every field in which two trees differ, lists by position."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        for key in sorted(found.keys() | wanted.keys()):
            yield from differences(found.get(key, "absent"), wanted.get(key, "absent"), f"{at}.{key}")
    elif isinstance(found, list) and isinstance(wanted, list) and len(found) == len(wanted):
        for index, pair in enumerate(zip(found, wanted, strict=True)):
            yield from differences(*pair, f"{at}[{index}]")
    elif found != wanted:
        yield f"{at}: {found!r}, expected {wanted!r}"


@pytest.mark.parametrize("name", ["cpu-large", "l4x1-spot", "h100x8"])
def test_a_pod_is_what_was_written_by_hand(name: str) -> None:
    wanted = yaml.safe_load((Path(__file__).parent / "pods" / f"{name}.yaml").read_text())
    assert list(differences(spec(*examples()[name]), wanted)) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_pods_are_valid_to_the_last_field(version: str) -> None:
    for example in examples().values():
        pod = spec(*example)
        kubernetes_validate.validate({**pod, "metadata": {**pod["metadata"], "name": "x"}}, version, strict=True)
        kubernetes_validate.validate(work(*example), version, strict=True)


def test_strict_validation_sees_an_unknown_field() -> None:
    made = work(*examples()["h100x8"])
    made["spec"]["template"]["spec"]["containers"][0]["imag"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(made, VERSIONS[-1], strict=True)


def test_a_long_run_id_becomes_a_valid_label() -> None:
    pools = load_pools()
    pod = spec(job("rl", "rl", "h100x8", pools, run_id="r" * 200), pools["h100x8"], SETTINGS)
    assert len(pod["metadata"]["labels"]["posttrain.dev/run"]) <= 63
    assert "r" * 200 in pod["spec"]["containers"][0]["args"]


def test_no_secret_value_gets_into_a_pod_a_dag_or_a_log(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    planted = "planted-4b1d9c"
    for name in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN", "MLFLOW_TRACKING_PASSWORD"):
        monkeypatch.setenv(name, f"{planted}-{name}")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"https://user:{planted}@mlflow.example")
    monkeypatch.setenv("POSTTRAIN_POD_SECRETS", "store-access")
    pools = load_pools()
    for name, pool in pools.items():
        one, settings = job("rl", "rl", name, pools), PodSettings.read()
        with DAG("nightly", schedule=None) as dag:
            StagePod(task_id="rl", recipe="nightly", stage="rl")
        assert {"secretRef": {"name": "store-access"}} in spec(one, pool, settings)["spec"]["containers"][0]["envFrom"]
        assert planted not in json.dumps(work(one, pool, settings))
        assert planted not in json.dumps(DagSerialization.to_dict(dag), default=str)
        assert planted not in "".join(refusals(one, pool, settings))
    assert planted not in "".join([*capfd.readouterr(), caplog.text])


@pytest.mark.parametrize(
    ("environ", "store", "line"),
    [
        ({}, "s3://bucket", "no image is known: set POSTTRAIN_IMAGE_GPU to name@sha256:<digest>"),
        (
            {"POSTTRAIN_IMAGE_GPU": "registry.example/gpu:latest"},
            "s3://bucket",
            "POSTTRAIN_IMAGE_GPU='registry.example/gpu:latest': expected an image by its digest: "
            "name@sha256:<64 hexadecimal digits>",
        ),
        (
            {"POSTTRAIN_IMAGE_GPU": GPU},
            "/data/store",
            "a pod cannot see the folder /data/store: set POSTTRAIN_STORE to a bucket, s3://bucket/prefix",
        ),
        (
            {"POSTTRAIN_IMAGE_GPU": GPU, "POSTTRAIN_POD_SECRETS": "Key=1"},
            "s3://bucket",
            "POSTTRAIN_POD_SECRETS='Key=1': expected the name of a Kubernetes object: "
            "lower-case letters, digits, '-' and '.'",
        ),
    ],
    ids=["no image", "tag", "folder", "secret"],
)
def test_what_cannot_be_a_pod_is_refused_before_the_run(environ: dict[str, str], store: str, line: str) -> None:
    pools = load_pools()
    jobs = [job(stage, "rl", "h100x8", pools, store=store) for stage in ("rl", "more")]
    with pytest.raises(InputError) as refused:
        refuse_pods(jobs, pools, PodSettings.read(environ))
    assert str(refused.value) == f"pool 'h100x8' runs in pods: {line} (stages: rl, more)"


def test_complete_settings_refuse_nothing() -> None:
    pools = load_pools()
    several = job("rl", "rl", "h100x16", pools)
    refuse_pods([several, *(example[0] for example in examples().values())], pools, SETTINGS)


@pytest.mark.parametrize("trainer", [None, "posttrain-torch"])
def test_several_nodes_meet_at_the_first_pod(trainer: str | None) -> None:
    pools = load_pools()
    pool = pools["h100x16"].model_copy(update={"training_runtime": trainer})
    one = job("rl", "rl", "h100x16", pools)
    made = work(one, pool, SETTINGS)
    name = made["metadata"]["name"]
    if trainer:
        assert made["kind"] == "TrainJob" and made["spec"]["runtimeRef"]["name"] == trainer
        node, command = made["spec"]["trainer"]["numNodes"], made["spec"]["trainer"]["command"]
    else:
        assert made["kind"] == "JobSet" and made["spec"]["network"]["subdomain"] == name
        (group,) = made["spec"]["replicatedJobs"]
        batch = group["template"]["spec"]
        node, command = batch["completions"], batch["template"]["spec"]["containers"][0]["command"]
    assert node == 2 and command[:3] == ["torchrun", "--nnodes=2", "--nproc-per-node=8"]
    assert f"--master-addr={name}-node-0-0.{name}" in command and "--node-rank=$(JOB_COMPLETION_INDEX)" in command
    assert made["metadata"]["ownerReferences"][0]["kind"] == "Lease"
