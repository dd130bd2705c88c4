"""Pods of stages, built without a cluster: against specifications written by hand, and against Kubernetes' schemas."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from airflow.sdk import DAG, Param
from airflow.serialization.serialized_objects import DagSerialization
from kubernetes.client import ApiClient

from components.contract.errors import InputError
from components.contract.job import Job
from pipelines.engines.airflow.tasks.pod_task import StagePod
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
EMPTY = {"affinity", "envFrom", "imagePullSecrets", "initContainers", "ports", "tolerations"}
"""Fields that Airflow writes without content; Kubernetes takes them as absent."""


def job(stage: str, component: str, pool: str, pools: dict[str, Pool], **more: Any) -> Job:
    """Return a job of the recipe `nightly`."""
    fixed = {"recipe": "nightly", "run_id": RUN, "store": "s3://bucket/store", "params": {}, "inputs": {}, "seed": 0}
    resources = pools[pool].resources(pool)
    return Job(**{**fixed, "stage": stage, "component": component, "resources": resources, **more})


def operator(one: Job, pool: Pool, settings: PodSettings) -> StagePod:
    """Return the operator of a job, in a DAG of its own."""
    with DAG("nightly", schedule=None, params={"steps": Param(80, type="integer")}):
        return StagePod(task_id=one.stage, job=one, node_pool=pool, settings=settings)


def spec(task: StagePod) -> dict[str, Any]:
    """Return the pod that a task would create, without a cluster."""
    pod = ApiClient().sanitize_for_serialization(task.build_pod_request_obj(dry_run=True))
    for part in (pod["spec"], pod["spec"]["containers"][0]):
        for name in [name for name in EMPTY & part.keys() if not part[name]]:
            del part[name]
    return pod


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
    found = spec(operator(*examples()[name]))
    prefix, _, suffix = found["metadata"]["name"].rpartition("-")
    assert re.fullmatch("[a-z0-9]{8}", suffix)
    found["metadata"]["name"] = prefix
    assert found["metadata"]["labels"].pop("airflow_version")
    assert list(differences(found, wanted)) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_pods_are_valid_to_the_last_field(version: str) -> None:
    for example in examples().values():
        kubernetes_validate.validate(spec(operator(*example)), version, strict=True)


def test_strict_validation_sees_an_unknown_field() -> None:
    pod = spec(operator(*examples()["h100x8"]))
    pod["spec"]["containers"][0]["imag"] = "x"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)


def test_templates_render() -> None:
    pools = load_pools()
    run_id = "{{ dag_run.run_id | replace(':', '-') }}-{{ params.steps }}"
    one = job("rl", "rl", "h100x8", pools, run_id=run_id, store="s3://{{ var.value.bucket }}/store")
    task = operator(one, pools["h100x8"], SETTINGS)
    rendered = copy.copy(task)
    rendered.render_template_fields(
        {
            "dag": task.dag,
            "dag_run": {"run_id": "manual__2026-11-21T12:00:00.123456+00:00"},
            "params": {"steps": 80},
            "var": {"value": {"bucket": "models"}},
        }
    )
    pod = spec(rendered)
    run = "manual__2026-11-21T12-00-00.123456+00-00-80"
    store = "s3://models/store"
    assert pod["spec"]["containers"][0]["args"] == ["--store", store, "--run", run, "--stage", "rl", "--alone"]
    label = pod["metadata"]["labels"]["posttrain.dev/run"]  # a plus is not allowed in a label
    assert re.fullmatch(r"manual__2026-11-21T12-00-00\.12345600-00-80-[0-9a-f]{9}", label)
    kubernetes_validate.validate(pod, VERSIONS[-1], strict=True)


def test_a_long_run_id_becomes_a_valid_label() -> None:
    pools = load_pools()
    pod = spec(operator(job("rl", "rl", "h100x8", pools, run_id="r" * 200), pools["h100x8"], SETTINGS))
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
        task = operator(job("rl", "rl", name, pools), pool, PodSettings.read())
        pod = spec(task)
        assert {"secretRef": {"name": "store-access"}} in pod["spec"]["containers"][0]["envFrom"]
        assert planted not in json.dumps(pod)
        assert planted not in json.dumps(DagSerialization.to_dict(task.dag), default=str)
        assert planted not in "".join(refusals(task.job, pool, task.settings))
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
    here = job("sft", "sft", "cpu", pools, store=store)  # not a pod: nothing to refuse
    with pytest.raises(InputError) as refused:
        refuse_pods([*jobs, here], pools, PodSettings.read(environ))
    assert str(refused.value) == f"pool 'h100x8' runs in pods: {line} (stages: rl, more)"


def test_several_nodes_are_refused_and_complete_settings_are_not() -> None:
    pools = load_pools()
    with pytest.raises(InputError, match="the pool has 2 nodes, and a pod is on one: name a pool with nodes: 1"):
        refuse_pods([job("rl", "rl", "h100x16", pools)], pools, SETTINGS)
    refuse_pods([example[0] for example in examples().values()], pools, SETTINGS)
