"""Compiled pipelines run by Kubeflow's own local runner: the pipeline's containers, as the pipeline calls them.

Runs in the environment that holds kfp, on podman's socket. tests/support/kfp_local.py says what is mended in it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.containers.conftest import BUCKET, FEW, IMAGE, RECIPE, SET_FEW, Network
from tests.support.kfp_local import Ran, podman_socket, repaired

pytestmark = [pytest.mark.containers, pytest.mark.slow]
STORE = f"s3://{BUCKET}/store"
REFUSED = ["--set", "stages.dev.gate=num_rows > 1000000"]
CLOSED = {"read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges"], "mem_limit": "4g"}
Posttrain = Callable[..., subprocess.CompletedProcess[str]]
Run = Callable[..., Ran]


@pytest.fixture
def variables(bucket: dict[str, str], network: Network, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Let this process, its children and all containers use the bucket; return what containers are given."""
    given = {name: value for name, value in bucket.items() if name.startswith("AWS_")} | {"POSTTRAIN_LINEAGE": "later"}
    own = {"POSTTRAIN_IMAGE_CPU": IMAGE, "POSTTRAIN_IMAGE_GPU": IMAGE, "POSTTRAIN_CONTAINER_NETWORK": network.name}
    for name, value in {**bucket, **given, **own}.items():
        monkeypatch.setenv(name, value)
    return given


@pytest.fixture
def posttrain(variables: dict[str, str], tmp_path: Path) -> Posttrain:
    """Run the command line tool beside the bucket."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pipelines.cli", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1800)

    return run


@pytest.fixture
def kubeflow(
    variables: dict[str, str], network: Network, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Run a compiled file with arguments by kfp.local in hardened containers; returns what it started."""
    from kfp import components, local

    root = tmp_path / "root"
    root.mkdir()
    root.chmod(0o777)  # containers run as a user of their own
    with podman_socket(tmp_path / "podman.sock") as address, repaired(variables) as ran:
        monkeypatch.setenv("DOCKER_HOST", address)
        runner = local.DockerRunner(network_mode=network.name, user="10001:10001", tmpfs={"/tmp": ""}, **CLOSED)
        local.init(runner, pipeline_root=str(root), raise_on_error=False)

        def run(file: Path, **arguments: Any) -> Ran:
            components.load_component_from_file(str(file))(**arguments)
            return ran

        yield run


def test_the_compiled_recipe_runs_and_makes_what_the_local_engine_knows(
    kubeflow: Run, posttrain: Posttrain, tmp_path: Path
) -> None:
    pipeline = tmp_path / "pipeline.yaml"
    compiled = posttrain("compile", RECIPE, "--engine", "kubeflow", "-o", str(pipeline))
    assert compiled.returncode == 0, compiled.stderr
    ran = kubeflow(pipeline, posttrain_store=STORE, **FEW)
    assert set(ran.codes) == {0}, ran.output
    stages = _shown(posttrain)["stages"]
    assert len(stages) == 14
    assert len(ran.codes) == len(stages) + 2  # one begins the run, one ends it
    assert {stage["status"] for stage in stages} == {"done"}
    again = posttrain("run", RECIPE, *SET_FEW, "--containers", "--json", "--store", STORE)
    assert again.returncode == 0, again.stdout + again.stderr
    known = json.loads(again.stdout)["stages"]
    assert {(stage["status"], stage["cache"]) for stage in known} == {("done", "hit")}
    assert [stage["outputs"] for stage in known] == [stage["outputs"] for stage in stages]


def test_a_stage_that_fails_fails_the_pipeline_and_is_told_at_its_end(
    kubeflow: Run, posttrain: Posttrain, tmp_path: Path
) -> None:
    pipeline = tmp_path / "pipeline.yaml"
    compiled = posttrain("compile", RECIPE, "--engine", "kubeflow", "-o", str(pipeline), *REFUSED)
    assert compiled.returncode == 0, compiled.stderr
    ran = kubeflow(pipeline, posttrain_store=STORE, **FEW)
    assert 0 < sum(code != 0 for code in ran.codes) < len(ran.codes)
    assert "num_rows > 1000000" in ran.output
    assert ran.codes[-1] == 0  # the task that ends the run
    shown = _shown(posttrain)
    assert shown["status"] == "failed"
    assert [stage["name"] for stage in shown["stages"] if stage["status"] == "failed"] == ["dev"]


def _shown(posttrain: Posttrain) -> dict[str, Any]:
    """Return the newest run as `posttrain show` tells it."""
    done = posttrain("show", "latest", "--json", "--store", STORE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
