"""A pool's fabric: devices, NCCL's variables and locked memory reach its pods, and nothing else can be set by it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.contract.job import Job
from pipelines.engines.driver.manifests.jobset import jobset_manifest
from pipelines.engines.shared.pod import PodSettings, pod_template
from pipelines.plan.plan import build_plan
from pipelines.recipe.fabric import Fabric
from pipelines.recipe.pools import Pool
from pipelines.recipe.recipe import load_recipe

PAIR = {"cpus": 96, "memory_gib": 1600, "gpus": 8, "gpu_type": "h100", "nodes": 2, "trainer": "fsdp"}
FABRIC = {
    "resources": {"rdma/hca_shared_devices_a": 1},
    "environment": {"NCCL_IB_HCA": "mlx5", "NCCL_IB_GID_INDEX": 3},
    "lock_memory": True,
}


@pytest.fixture(scope="module")
def job() -> Job:
    return build_plan(load_recipe("quickstart"), "s3://bucket/store", "nodes-1").jobs[0]


def container(job: Job, fabric: dict[str, Any] | None) -> dict[str, Any]:
    pool = Pool.model_validate({**PAIR, "fabric": fabric})
    (group,) = jobset_manifest(job, pool, PodSettings.read({}), "name", "key", {})["spec"]["replicatedJobs"]
    (found,) = group["template"]["spec"]["template"]["spec"]["containers"]
    return found


def test_a_node_gets_its_devices_variables_and_locked_memory(job: Job) -> None:
    plain, found = container(job, None), container(job, FABRIC)
    for kind in ("requests", "limits"):
        assert found["resources"][kind] == {**plain["resources"][kind], "rdma/hca_shared_devices_a": "1"}
    added = [variable for variable in found["env"] if variable not in plain["env"]]
    assert added == [{"name": "NCCL_IB_GID_INDEX", "value": "3"}, {"name": "NCCL_IB_HCA", "value": "mlx5"}]
    assert found["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["IPC_LOCK"]}
    rest = copy.deepcopy(found)
    rest |= {name: plain[name] for name in ("resources", "env", "securityContext")}
    assert rest == plain


def test_a_pod_without_a_fabric_is_as_before(job: Job) -> None:
    pool = Pool.model_validate(PAIR)
    (found,) = pod_template(job, pool, PodSettings.read({}))["spec"]["containers"]
    assert found["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert found["resources"]["limits"] == {"cpu": "96", "memory": "1600Gi", "nvidia.com/gpu": "8"}
    assert "fabric" not in pool.model_dump_json(exclude_defaults=True)


@pytest.mark.parametrize(
    "wrong",
    [
        {"environment": {"PYTHONPATH": "/tmp"}},
        {"environment": {"POSTTRAIN_STORE": "s3://other"}},
        {"environment": {"NCCL_DEBUG": "$(AWS_SECRET_ACCESS_KEY)"}},
        {"environment": {"NCCL_DEBUG": "INFO\nPATH=/tmp"}},
        {"resources": {"cpu": 1}},
        {"resources": {"rdma/hca": 0}},
        {"resources": {"rdma/hca": "1; rm"}},
        {"lock_memory": "yes"},
        {"privileged": True},
    ],
)
def test_nothing_else_can_be_set(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Fabric.model_validate(wrong)


@given(st.text(max_size=20))
def test_variables_are_those_of_the_fabric(name: str) -> None:
    try:
        Fabric(environment={name: "1"})
    except ValidationError:
        return
    assert name.split("_")[0] in ("NCCL", "FI", "UCX", "GLOO") and name.isascii()


def test_one_node_has_no_fabric() -> None:
    with pytest.raises(ValidationError, match="a pool with a 'fabric' has several 'nodes'"):
        Pool.model_validate({**PAIR, "nodes": 1, "fabric": FABRIC})
