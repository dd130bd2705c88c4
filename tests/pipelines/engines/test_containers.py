"""How a job's container is closed in; what it really cannot do is tested in tests/end_to_end/test_containers.py."""

from __future__ import annotations

import os

import pytest

from components.contract.errors import InputError
from components.contract.job import Job, Resources
from pipelines.engines.local.containers import Containers

IMAGES = {"cpu": "posttrain-cpu:1", "gpu": "posttrain-gpu:1"}
SECRET = "planted-secret-value"


def job(store: str, **changes: object) -> Job:
    """Return a job of the sft stage."""
    fields = {"run_id": "r", "recipe": "x", "stage": "sft", "component": "sft", "params": {}, "inputs": {}, "seed": 0}
    return Job.model_validate({**fields, "store": store, **changes})


def options(command: list[str], name: str) -> list[str]:
    """Return the values that an option has in a command."""
    return [command[index + 1] for index, part in enumerate(command) if part == name]


@pytest.mark.parametrize("tool", ["podman", "docker"])
@pytest.mark.parametrize("store", ["s3://bucket/store", "/data/store"])
def test_every_container_is_closed_in(tool: str, store: str) -> None:
    command = Containers(tool, IMAGES).command(job(store), "name", {})
    assert command[:3] == [tool, "run", "--rm"]
    assert "--read-only" in command
    assert options(command, "--cap-drop") == ["all"]
    assert options(command, "--security-opt") == ["no-new-privileges"]
    assert options(command, "--memory") == options(command, "--memory-swap") == ["4096m"]
    assert command[-1] == "posttrain-cpu:1"


def test_a_folder_needs_no_network_and_is_all_that_is_seen() -> None:
    command = Containers("podman", IMAGES, network="store").command(job("/data/store"), "name", {})
    assert options(command, "--network") == ["none"]
    assert options(command, "--volume") == ["/tmp", "/data/store:/data/store"]
    assert options(command, "--user") == [f"{os.getuid()}:{os.getgid()}"]


def test_a_bucket_is_reached_by_the_network_that_was_named() -> None:
    command = Containers("podman", IMAGES, network="store").command(job("s3://bucket/store"), "name", {})
    assert options(command, "--network") == ["store"]
    assert options(command, "--volume") == ["/tmp"]
    assert options(command, "--user") == ["10001:10001"]


def test_secrets_are_on_no_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("SOMETHING_ELSE", SECRET)
    command = Containers("podman", IMAGES).command(job("s3://bucket/store"), "name", {"OMP_NUM_THREADS": "1"})
    given = options(command, "--env")
    assert "AWS_SECRET_ACCESS_KEY" in given and "OMP_NUM_THREADS=1" in given
    assert not [part for part in command if SECRET in part or "SOMETHING_ELSE" in part]


@pytest.mark.parametrize(
    ("tool", "wanted"), [("docker", ["--gpus", "2"]), ("podman", ["--device", "nvidia.com/gpu=all"])]
)
def test_gpus_take_the_image_that_has_their_libraries(tool: str, wanted: list[str]) -> None:
    two = Resources(pool="a", gpus=2, memory_gib=0.5)
    command = Containers(tool, IMAGES).command(job("s3://bucket/store", resources=two), "name", {})
    assert options(command, wanted[0]) == wanted[1:]
    assert (command[-1], options(command, "--memory")) == ("posttrain-gpu:1", ["512m"])


def test_what_cannot_work_is_refused_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if name == "docker" else None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(InputError, match=r"never run as root.* s3://bucket/prefix"):
        Containers.find("/data/store", {})
    found = Containers.find("s3://bucket/store", {"POSTTRAIN_IMAGE_CPU": "mine"})
    assert (found.tool, found.images) == ("docker", {"cpu": "mine", "gpu": "posttrain-gpu:latest"})
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(InputError, match="podman or docker"):
        Containers.find("s3://bucket/store", {})
