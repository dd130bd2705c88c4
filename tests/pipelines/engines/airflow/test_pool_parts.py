"""One builder: what a pool says of its pods reaches Jobs and the nodes of JobSets to the last field."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest

from components.contract.job import Job
from pipelines.engines.driver.manifests.batch import batch_manifest
from pipelines.engines.driver.manifests.jobset import jobset_manifest
from pipelines.engines.shared.pod import PodSettings, pod_template
from pipelines.recipe.pools import Pool, load_pools
from tests.pipelines.engines.airflow.test_pod import SETTINGS, job
from tests.pipelines.open_pool import OPEN, PAIR

QUEUE = "kueue.x-k8s.io/queue-name"
OWNER = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "name": "x", "uid": "1"}
PLAIN = Pool.model_validate(PAIR)
POOL = Pool.model_validate({**PAIR, **OPEN})


@pytest.fixture(scope="module")
def stage() -> Job:
    return job("train", "rl", "h100x16", load_pools())


def test_the_pool_says_what_the_pod_has(stage: Job) -> None:
    pod = pod_template(stage, POOL, SETTINGS)
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    amounts = {
        "cpu": "96",
        "memory": "1600Gi",
        "nvidia.com/gpu": "8",
        "ephemeral-storage": "500Gi",
        "vpc.amazonaws.com/efa": "32",
        "hugepages-2Mi": "5120Mi",
    }
    assert container["resources"] == {"requests": amounts, "limits": amounts}
    env = {item["name"]: item["value"] for item in container["env"]}
    assert {**env, **POOL.env} == env
    assert env["NCCL_DEBUG"] == "INFO" and env["HOME"] == "/tmp"
    assert spec["terminationGracePeriodSeconds"] == 120
    labels = pod["metadata"]["labels"]
    assert (labels["team"], labels["posttrain.dev/role"], labels["posttrain.dev/pool"]) == ("rl", "stage", "h100x16")
    assert pod["metadata"]["annotations"]["kueue.x-k8s.io/podset-required-topology"].endswith("topology-rack")
    same = {"posttrain.dev/run": stage.run_id, "posttrain.dev/stage": "train"}
    assert same.items() <= labels.items()
    together = {"labelSelector": {"matchLabels": same}}
    layer = {**together, "topologyKey": "topology.k8s.aws/network-node-layer-3"}
    assert spec["affinity"] == {
        **OPEN["affinity"],
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {**together, "topologyKey": "topology.kubernetes.io/zone"}
            ],
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "podAffinityTerm": layer}],
        },
    }


def test_volumes_are_mounted_once_and_tmp_is_the_pools_own(stage: Job) -> None:
    spec = pod_template(stage, POOL, SETTINGS)["spec"]
    (container,) = spec["containers"]
    paths = {item["name"]: item for item in container["volumeMounts"]}
    assert [item["mountPath"] for item in container["volumeMounts"]] == [volume.mount for volume in POOL.volumes]
    assert [volume["name"] for volume in spec["volumes"]] == list(paths)
    assert paths["pool-0"] == {"name": "pool-0", "mountPath": "/data", "readOnly": True, "subPath": "math/v1"}
    sources = {name: value for volume in spec["volumes"] for name, value in volume.items() if name != "name"}
    assert sources["persistentVolumeClaim"] == {"claimName": "datasets"}
    claim = sources["ephemeral"]["volumeClaimTemplate"]
    assert claim["spec"] == {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "2Ti"}},
        "storageClassName": "local-nvme",
    }
    assert sources["emptyDir"] == {"medium": "Memory", "sizeLimit": "8Gi"}
    assert sources["secret"] == {"secretName": "hub"}
    assert sources["csi"]["volumeAttributes"] == {"bucketName": "models"}


def test_all_kinds_of_work_have_the_same_pods(stage: Job) -> None:
    jobset = jobset_manifest(stage, POOL, SETTINGS, "train-1", "key", {})
    template = jobset["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
    alone = batch_manifest(stage, POOL, SETTINGS, "train-1", "key", {})
    of_job = alone["spec"]["template"]
    for name in ("affinity", "volumes", "terminationGracePeriodSeconds", "nodeSelector", "securityContext"):
        found: list[Any] = [pod["spec"].get(name) for pod in (template, of_job)]
        assert (found[0] and found.count(found[0]) == 2) or name == "nodeSelector"
    for name in ("env", "resources", "volumeMounts", "securityContext", "image", "envFrom"):
        first, other = (pod["spec"]["containers"][0].get(name) for pod in (template, of_job))
        assert first == other
    # Kueue queues the workload as a whole: its pods do not queue again
    assert jobset["metadata"]["labels"][QUEUE] == alone["metadata"]["labels"][QUEUE] == "stages"
    assert QUEUE not in template["metadata"]["labels"] and QUEUE not in of_job["metadata"]["labels"]


@pytest.mark.parametrize("version", ["1.33", "1.34", "1.35"])
def test_every_field_is_valid_to_the_letter(stage: Job, version: str) -> None:
    kubernetes_validate.validate(batch_manifest(stage, POOL, SETTINGS, "x", "key", OWNER), version, strict=True)
    template = jobset_manifest(stage, POOL, SETTINGS, "x", "key", {})["spec"]["replicatedJobs"][0]["template"]
    batch = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "x"}, **template}
    kubernetes_validate.validate(batch, version, strict=True)


def test_a_pool_without_such_fields_adds_nothing(stage: Job) -> None:
    pod = pod_template(stage, PLAIN, SETTINGS)["spec"]
    assert not pod.keys() & {"affinity", "priorityClassName"}
    assert pod["terminationGracePeriodSeconds"] == 120
    assert pod["volumes"] == [{"name": "tmp", "emptyDir": {}}]
    assert QUEUE not in batch_manifest(stage, PLAIN, SETTINGS, "x", "key", {})["metadata"]["labels"]


def test_a_pool_without_gpus_takes_the_small_image(stage: Job) -> None:
    settings = PodSettings(images={"cpu": "small", "gpu": "large"})
    pools = load_pools()
    for name, pool in pools.items():  # rl declares the GPU image, and needs it where there are GPUs
        image = pod_template(job("train", "rl", name, pools), pool, settings)["spec"]["containers"][0]["image"]
        assert image == ("large" if pool.gpus else "small")
