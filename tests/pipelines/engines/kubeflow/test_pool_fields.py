"""What a pool says of its pods, in tasks that run stages in their own containers; what Kubeflow has no words for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from components.contract.errors import InputError
from tests.pipelines.engines.kubeflow.conftest import CPU
from tests.pipelines.engines.kubeflow.examples import compiled, executor_of, parsed
from tests.pipelines.open_pool import OPEN

SMALL = {"cpus": 2, "memory_gib": 4}
WORDS = ("env", "labels", "annotations", "queue")
TERM = OPEN["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
RECIPE = "name: plain\nstages: {base: {uses: pretrain, pool: own, with: {layers: 2}}}\n"


TOYS = pytest.mark.usefixtures("toy_catalog")


def on(pool: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return container and platform configuration of a stage on a pool."""
    (tmp_path / "pools.yaml").write_text(yaml.safe_dump({"own": pool, "cpu": SMALL}))
    (tmp_path / "plain.yaml").write_text(RECIPE)
    monkeypatch.setenv("POSTTRAIN_POOLS", str(tmp_path / "pools.yaml"))
    pipeline, platform = parsed(compiled(tmp_path / "plain.yaml"))
    executor = executor_of(pipeline, "base")
    return pipeline["deploymentSpec"]["executors"][executor]["container"], platform[executor]


@TOYS
def test_a_task_has_what_its_pool_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wish = {"weight": 7, "preference": TERM}
    affinity = {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]},
        "preferredDuringSchedulingIgnoredDuringExecution": [wish],
    }
    volumes = [
        {"mount": "/data", "claim": "datasets", "sub_path": "math/v1"},
        {"mount": "/etc/ca", "config_map": "ca"},
        {"mount": "/etc/hub", "secret": "hub"},
        {"mount": "/scratch", "empty_dir": {"size": "8Gi"}},
        {"mount": "/nvme", "ephemeral": {"size": "2Ti", "storage_class": "local-nvme"}},
    ]
    pool = {**SMALL, **{word: OPEN[word] for word in WORDS}, "affinity": {"nodeAffinity": affinity}, "volumes": volumes}
    container, platform = on(pool, tmp_path, monkeypatch)
    env = {item["name"]: item["value"] for item in container["env"]}
    assert (env["NCCL_DEBUG"], env["HF_HUB_ENABLE_HF_TRANSFER"], env["HOME"]) == ("INFO", "1", "/tmp")
    labels, annotations = platform["podMetadata"]["labels"], platform["podMetadata"]["annotations"]
    assert (labels["team"], labels["kueue.x-k8s.io/queue-name"], labels["posttrain.dev/role"]) == (
        "rl",
        "stages",
        "stage",
    )
    assert OPEN["annotations"].items() <= annotations.items()
    assert [item.get("weight") for item in platform["nodeAffinity"]] == [None, 7]
    for item in platform["nodeAffinity"]:
        assert item["matchExpressions"] == TERM["matchExpressions"]
    (claim,) = platform["pvcMount"]
    assert (claim["mountPath"], claim["subPath"]) == ("/data", "math/v1")
    assert platform["configMapAsVolume"][0]["mountPath"] == "/etc/ca"
    assert platform["secretAsVolume"][0]["mountPath"] == "/etc/hub"
    (ephemeral,) = platform["genericEphemeralVolume"]
    assert (ephemeral["mountPath"], ephemeral["size"], ephemeral["storageClassName"]) == ("/nvme", "2Ti", "local-nvme")
    assert {item["mountPath"] for item in platform["emptyDirMounts"]} == {"/tmp", "/scratch"}


@TOYS
def test_what_a_task_cannot_have_is_refused_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ("resources", "ephemeral_storage", "grace_period", "affinity", "volumes")
    pool = {**SMALL, **{word: OPEN[word] for word in words}}
    with pytest.raises(InputError) as refused:
        on(pool, tmp_path, monkeypatch)
    (line,) = str(refused.value).splitlines()
    found = "resources, ephemeral_storage, grace_period, affinity among pods, volumes of csi, volumes at /tmp, "
    assert line.startswith(f"pool 'own' has {found}sub_path or read_only of volumes, which Kubeflow's own tasks")
    assert line.endswith("set 'runs_on: pod' there (stages: base)")
    assert on({**pool, "runs_on": "pod"}, tmp_path, monkeypatch)  # its task only drives it


@TOYS
def test_a_pool_without_gpus_takes_the_small_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    container, _ = on(SMALL, tmp_path, monkeypatch)  # pretrain declares the GPU image
    assert container["image"] == CPU


def test_nothing_of_quickstart_asks_for_the_gpu_image() -> None:
    pipeline, _ = parsed(compiled("quickstart", store="s3://bucket/store"))
    images = [one["container"]["image"] for one in pipeline["deploymentSpec"]["executors"].values()]
    assert images and set(images) == {CPU}
