"""Fixtures for images and the containers of them: podman, a network without a way out, and a bucket inside of it.

Needs podman, root (which may make networks) and the image posttrain-cpu of this very tree: make images IMAGES=cpu
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.s3_rights import Rights, account_rights
from tests.support.s3_server import local_s3, make_bucket, s3_environment

IMAGE = os.environ.get("POSTTRAIN_IMAGE_CPU", "localhost/posttrain-cpu:latest")
GPU_IMAGE = os.environ.get("POSTTRAIN_IMAGE_GPU", "localhost/posttrain-gpu:latest")
BUCKET = "posttrain-containers"
STAGE, MLFLOW = account_rights()["stage"], account_rights()["mlflow"]
BUCKET_RIGHTS = Rights(STAGE.writes + MLFLOW.writes, STAGE.deletes + MLFLOW.deletes)
RECIPE = "quickstart"
FEW = {
    "base_steps": 12,
    "sft_steps": 6,
    "rl_steps": 6,
    "replay_steps": 4,
    "corpus_rows": 400,
    "demo_rows": 160,
    "prompt_rows": 48,
    "eval_rows": 12,
    "eval_samples": 2,
}
"""Parameters of the recipe with which all of its stages run in seconds."""
SET_FEW = [part for name, value in FEW.items() for part in ("--set", f"{name}={value}")]


def podman(*arguments: str) -> str:
    """Run podman and return what it printed."""
    done = subprocess.run(["podman", *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@dataclass(frozen=True)
class Network:
    """A network in which containers reach this machine and nothing else."""

    name: str
    host: str
    """This machine's address in it."""


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    """Make a network without a way out."""
    name = f"posttrain-test-{uuid.uuid4().hex[:8]}"
    podman("network", "create", "--internal", name)
    # the address exists while a container is in the network
    keeper = podman("run", "--rm", "--detach", "--network", name, "--entrypoint", "sleep", IMAGE, "infinity").strip()
    try:
        yield Network(name, json.loads(podman("network", "inspect", name))[0]["subnets"][0]["gateway"])
    finally:
        podman("rm", "--force", "--time", "0", keeper)
        podman("network", "rm", "--force", name)


@pytest.fixture
def bucket(network: Network, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Serve an empty bucket at this machine's address in the network; return the variables by which it is reached.

    In it one may do what the cloud lets a stage's pod do, so that a recipe that runs here can run there.
    """
    with local_s3(host=network.host, rights=BUCKET_RIGHTS) as endpoint:
        make_bucket(endpoint, BUCKET)
        yield s3_environment(endpoint, tmp_path / "cache")
