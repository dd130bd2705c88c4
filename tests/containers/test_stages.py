"""Every stage in a container: the same digests as without, nothing in reach but the store, failures told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from components.contract.job import Job
from pipelines.engines.local.containers import Containers
from tests.containers.conftest import BUCKET, IMAGE, RECIPE, SET_FEW, Network

pytestmark = [pytest.mark.containers, pytest.mark.slow]
STORE = f"s3://{BUCKET}/store"
PROBE = """
import json, os, socket
from pathlib import Path
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
def refused(what):
    try: what()
    except OSError as error: return error.strerror
limits = [Path("/sys/fs/cgroup", name) for name in ("memory/memory.limit_in_bytes", "memory.max")]
print(json.dumps({
    "uid": os.getuid(), "capabilities": int(status["CapEff"], 16), "no_new_privileges": int(status["NoNewPrivs"]),
    "seccomp": int(status["Seccomp"]), "root": refused(lambda: open("/opt/posttrain/x", "w")),
    "tmp": refused(lambda: open("/tmp/x", "w")), "memory": [int(path.read_text()) for path in limits if path.exists()],
    "internet": refused(lambda: socket.create_connection(("192.0.2.1", 443), 2)),
    "store": refused(lambda: socket.create_connection((HOST, PORT), 2)),
}))
"""
GREEDY = "x = []\nwhile True: x.append(bytearray(1 << 24))"
Posttrain = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def planted() -> str:
    """A secret that every stage is given, since without it the bucket is closed."""
    return f"planted-{uuid.uuid4().hex}"


@pytest.fixture
def posttrain(network: Network, bucket: dict[str, str], planted: str, tmp_path: Path) -> Posttrain:
    """Run posttrain with a bucket on this machine that containers reach at its address in their network."""
    variables = {
        "POSTTRAIN_LINEAGE": "later",
        "AWS_SECRET_ACCESS_KEY": planted,
        "POSTTRAIN_CONTAINER_NETWORK": network.name,
        "POSTTRAIN_IMAGE_CPU": IMAGE,
    }
    environment = {**os.environ, **bucket, **variables}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipelines.cli", *arguments]
        return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=3000)

    return run


def test_a_whole_recipe_makes_the_same_in_containers(
    posttrain: Posttrain, bucket: dict[str, str], planted: str, tmp_path: Path
) -> None:
    contained = posttrain("run", RECIPE, *SET_FEW, "--containers", "--json", "--store", STORE)
    assert contained.returncode == 0, contained.stdout + contained.stderr
    forked = posttrain("run", RECIPE, *SET_FEW, "--json", "--store", str(tmp_path / "store"))
    assert forked.returncode == 0, forked.stdout + forked.stderr
    digests = _digests(json.loads(contained.stdout))
    assert len(digests) > 20
    assert digests == _digests(json.loads(forked.stdout))
    assert planted not in contained.stdout + contained.stderr
    assert not [key for key, data in _objects(bucket) if planted.encode() in data]


def test_a_failing_stage_fails_the_run_with_its_last_line(posttrain: Posttrain) -> None:
    broken = ["--set", "stages.corpus.gate=num_rows > 1000000", "--set", "defaults.retries=0"]
    done = posttrain("run", RECIPE, *SET_FEW, "--containers", "--store", STORE, *broken)
    assert done.returncode == 1
    assert "num_rows > 1000000" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_what_a_stage_can_reach(network: Network, bucket: dict[str, str]) -> None:
    host, port = bucket["AWS_ENDPOINT_URL"].removeprefix("http://").split(":")
    done = _inside(network, PROBE.replace("HOST", repr(host)).replace("PORT", port))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "uid": 10001,
        "capabilities": 0,
        "no_new_privileges": 1,
        "seccomp": 2,
        "root": "Read-only file system",
        "tmp": None,
        "memory": [1 << 30],
        "internet": "Network is unreachable",
        "store": None,
    }


def test_a_stage_that_takes_more_memory_than_its_pool_gives_is_killed(network: Network) -> None:
    assert _inside(network, GREEDY).returncode == 137


def _inside(network: Network, program: str) -> subprocess.CompletedProcess[str]:
    """Run a program as a stage of a pool of 1 GiB would run."""
    fields = {"run_id": "r", "recipe": "x", "stage": "sft", "component": "sft", "params": {}, "inputs": {}, "seed": 0}
    job = Job.model_validate({**fields, "store": STORE, "resources": {"memory_gib": 1}})
    command = Containers("podman", {"cpu": IMAGE}, network.name).command(job, f"probe-{uuid.uuid4().hex[:8]}", {})
    command[-1:] = ["--entrypoint", "python", IMAGE, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def _digests(shown: dict[str, Any]) -> dict[str, str]:
    return {
        f"{stage['name']}.{port}": output["digest"]
        for stage in shown["stages"]
        for port, output in stage["outputs"].items()
    }


def _objects(bucket: dict[str, str]) -> list[tuple[str, bytes]]:
    """Return key and bytes of everything that the bucket holds."""
    import boto3

    session = boto3.Session(bucket["AWS_ACCESS_KEY_ID"], bucket["AWS_SECRET_ACCESS_KEY"], region_name="us-east-1")
    s3 = session.client("s3", endpoint_url=bucket["AWS_ENDPOINT_URL"])
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    keys = [item["Key"] for page in pages for item in page.get("Contents", [])]
    return [(key, s3.get_object(Bucket=BUCKET, Key=key)["Body"].read()) for key in keys]
