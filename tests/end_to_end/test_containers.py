"""Every stage in a container: the same digests as without, nothing in reach but the store, failures told.

Needs podman, the image posttrain-cpu of this very tree (make images IMAGES=cpu) and root, which may make networks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.s3_server import local_s3, make_bucket, s3_environment

pytestmark = [pytest.mark.containers, pytest.mark.slow]
IMAGE = os.environ.get("POSTTRAIN_IMAGE_CPU", "posttrain-cpu:latest")
NETWORK = "posttrain-test-internal"
BUCKET = "posttrain-containers"
MICRO = Path(__file__).parent / "recipes" / "micro.yaml"
PROBE = """
import json, os, socket
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
def refused(what):
    try: what()
    except OSError as error: return error.strerror
print(json.dumps({
    "uid": os.getuid(), "capabilities": int(status["CapEff"], 16), "no_new_privileges": int(status["NoNewPrivs"]),
    "root": refused(lambda: open("/opt/posttrain/x", "w")), "tmp": refused(lambda: open("/tmp/x", "w")),
    "internet": refused(lambda: socket.create_connection(("192.0.2.1", 443), 2)),
}))
"""
Posttrain = Callable[..., subprocess.CompletedProcess[str]]


def podman(*arguments: str) -> str:
    """Run podman and return what it printed."""
    return subprocess.run(["podman", *arguments], capture_output=True, text=True, check=True, timeout=120).stdout


@pytest.fixture(scope="module")
def network() -> Iterator[str]:
    """Make a network without a way out, and return the address of this machine in it."""
    podman("network", "create", "--internal", NETWORK)
    # the address exists while a container is in the network
    keeper = podman("run", "--rm", "--detach", "--network", NETWORK, "--entrypoint", "sleep", IMAGE, "3600").strip()
    try:
        yield json.loads(podman("network", "inspect", NETWORK))[0]["subnets"][0]["gateway"]
    finally:
        podman("kill", keeper)
        podman("network", "rm", "--force", NETWORK)


@pytest.fixture
def posttrain(network: str, tmp_path: Path) -> Iterator[Posttrain]:
    """Run posttrain with a bucket on this machine that containers reach at its address in their network."""
    with local_s3(host=network) as endpoint:
        make_bucket(endpoint, BUCKET)
        environment = {
            **os.environ,
            **s3_environment(endpoint, tmp_path / "cache"),
            "POSTTRAIN_LINEAGE": "later",
            "POSTTRAIN_CONTAINER_NETWORK": NETWORK,
            "POSTTRAIN_IMAGE_CPU": IMAGE,
        }

        def run(*arguments: str) -> subprocess.CompletedProcess[str]:
            command = [sys.executable, "-m", "pipelines.cli", *arguments]
            return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=3000)

        yield run


def test_a_whole_recipe_makes_the_same_in_containers(posttrain: Posttrain, tmp_path: Path) -> None:
    contained = posttrain("run", str(MICRO), "--containers", "--json", "--store", f"s3://{BUCKET}/store")
    assert contained.returncode == 0, contained.stdout + contained.stderr
    forked = posttrain("run", str(MICRO), "--json", "--store", str(tmp_path / "store"))
    assert forked.returncode == 0, forked.stdout + forked.stderr
    digests = _digests(json.loads(contained.stdout))
    assert len(digests) > 20
    assert digests == _digests(json.loads(forked.stdout))


def test_a_failing_stage_fails_the_run_with_its_last_line(posttrain: Posttrain) -> None:
    broken = ["--set", "stages.corpus.gate=num_rows > 1000000", "--set", "defaults.retries=0"]
    done = posttrain("run", str(MICRO), "--containers", "--store", f"s3://{BUCKET}/store", *broken)
    assert done.returncode == 1
    assert "num_rows > 1000000" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_what_a_stage_can_reach(network: str) -> None:
    from components.contract.job import Job
    from pipelines.engines.containers import Containers

    fields = {"run_id": "r", "recipe": "x", "stage": "sft", "component": "sft", "params": {}, "inputs": {}, "seed": 0}
    job = Job.model_validate({**fields, "store": "s3://bucket/store"})
    command = Containers("podman", {"cpu": IMAGE}, NETWORK).command(job, "posttrain-probe", {})
    command[-1:] = ["--entrypoint", "python", IMAGE, "-c", PROBE]
    seen = json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout)
    assert seen == {
        "uid": 10001,
        "capabilities": 0,
        "no_new_privileges": 1,
        "root": "Read-only file system",
        "tmp": None,
        "internet": "Network is unreachable",
    }


def _digests(shown: dict[str, Any]) -> dict[str, str]:
    return {
        f"{stage['name']}.{port}": output["digest"]
        for stage in shown["stages"]
        for port, output in stage["outputs"].items()
    }
