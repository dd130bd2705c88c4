"""Images: what is in them and what is not. A small image is built with secrets all around it, and searched for them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from components.contract.job import Job
from pipelines.engines.local.containers import Containers
from tests.containers.conftest import GPU_IMAGE, IMAGE, podman
from tests.containers.layers import found_in

pytestmark = [pytest.mark.containers, pytest.mark.slow]
ROOT = Path(__file__).parents[2]
SMALL = (
    "annotated-types",
    "pydantic",
    "pydantic-core",
    "pyyaml",
    "setuptools",
    "typing-extensions",
    "typing-inspection",
)
LIBRARIES = {"cpu": "torch, transformers, datasets, mlflow", "gpu": "torch, transformers, datasets, deepspeed, vllm"}
COMPILER = {"cpu": "None", "gpu": "/usr/bin/gcc"}
CPU_IMAGE_BYTES, CODE_LAYER_BYTES = 1_500_000_000, 20_000_000
MACHINE = ("PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL")
"""Variables whose values, where they are set, are this machine's own business."""


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    """Build a small image with a secret at every door; return its name, and door -> secret."""
    doors = ("links", "authority", "environment", "file", "label", "code")
    secrets = {door: f"planted-{door}-{uuid.uuid4().hex}" for door in doors}
    folder = tmp_path_factory.mktemp("planted")
    for part in ("components", "pipelines", "infra", "pyproject.toml", "README.md", ".dockerignore"):
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy
        copy(ROOT / part, folder / part)
    lock = folder / "infra" / "requirements" / "stages.lock"
    small = [line for line in lock.read_text().splitlines() if line.split("==")[0] in SMALL]
    lock.write_text("\n".join([f"# {uuid.uuid4().hex}: no layer of an earlier build will do", *small]))
    (folder / ".env").write_text(secrets["file"])
    (folder / "components" / "planted.txt").write_text(secrets["code"])
    (folder / "pip.conf").write_text(f"[global]\nfind-links = /nonexistent/{secrets['links']}\n")
    authority = Path(os.environ.get("PIP_CERT", "/etc/ssl/certs/ca-certificates.crt")).read_text()
    (folder / "authority.pem").write_text(f"# {secrets['authority']}\n{authority}")
    environment = {
        **{name: value for name, value in os.environ.items() if name not in MACHINE},
        "TAG": f"localhost/posttrain-planted:{uuid.uuid4().hex[:8]}",
        "BASE_IMAGE": os.environ.get("BASE_IMAGE", "localhost/python:3.11-slim-bookworm"),
        "EXTRA_INDEX_URL": "",
        "REVISION": secrets["label"],
        "PIP_CONFIG_FILE": str(folder / "pip.conf"),
        "PIP_CERT": str(folder / "authority.pem"),
        "AWS_SECRET_ACCESS_KEY": secrets["environment"],
        "HF_TOKEN": secrets["environment"],
    }
    command = [str(folder / "infra" / "images" / "build.sh"), "cpu"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, done.stdout + done.stderr
    assert secrets["links"] in done.stdout + done.stderr, "the build was not given its configuration"
    yield environment["TAG"], secrets
    podman("rmi", "--force", environment["TAG"])


@pytest.fixture(params=["cpu", "gpu"])
def built(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Return the kind of an image of the stages, and its name."""
    image = {"cpu": IMAGE, "gpu": GPU_IMAGE}[request.param]
    if subprocess.run(["podman", "image", "exists", image]).returncode:
        pytest.skip(f"{image} is not built: make images IMAGES={request.param}")
    return request.param, image


def test_no_layer_holds_a_secret_of_the_build(planted: tuple[str, dict[str, str]]) -> None:
    image, secrets = planted
    found = found_in(image, secrets.values())
    there = {door: secret in found for door, secret in secrets.items()}
    # the label and the code are there to show that what is in an image is found
    assert there == {
        "links": False,
        "authority": False,
        "environment": False,
        "file": False,
        "label": True,
        "code": True,
    }


def test_an_image_of_stages_is_as_it_should_be(built: tuple[str, str]) -> None:
    kind, image = built
    (told,) = json.loads(podman("inspect", image))
    settings = told["Config"]
    variables = dict(text.split("=", 1) for text in settings["Env"])
    code = json.loads(variables.pop("POSTTRAIN_CODE"))
    assert settings["User"] == "10001:10001"
    assert settings["Entrypoint"] == ["python", "-m", "components.runtime.job.process"]
    assert settings["Labels"]["org.opencontainers.image.title"] == f"posttrain-{kind}"
    assert settings["Labels"]["org.opencontainers.image.revision"] == code["version"]
    assert len(code["version"]) == 40
    assert len(code["lock"]) == 64
    assert variables.keys() <= {"PATH", "LANG", "HOME", "PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"} | {
        "GPG_KEY",
        "PYTHON_VERSION",
        "PYTHON_SHA256",
    }
    machine = {value for name in MACHINE if (value := os.environ.get(name)) and "pypi.org" not in value}
    assert found_in(image, {code["version"], *machine}) == {code["version"]}


def test_an_image_is_small_and_a_change_of_the_code_is_a_small_layer(built: tuple[str, str]) -> None:
    kind, image = built
    if kind == "cpu":
        (told,) = json.loads(podman("inspect", image))
        assert told["Size"] < CPU_IMAGE_BYTES
    history = json.loads(podman("history", "--format", "json", image))
    # newest first: above the code lie settings only
    last = next(layer for layer in history if layer["size"])
    assert "COPY" in last["CreatedBy"] and "/opt/posttrain" in last["CreatedBy"]
    assert last["size"] < CODE_LAYER_BYTES


def test_nothing_in_an_image_installs_or_is_secret(built: tuple[str, str]) -> None:
    kind, image = built
    search = "import os, shutil; from importlib.util import find_spec as f; print(shutil.which('gcc'), f('pip'))"
    search += "; print(os.path.exists('/run/secrets') and os.listdir('/run/secrets'), os.path.exists('/wheels'))"
    printed = podman("run", "--rm", "--network", "none", "--entrypoint", "python", image, "-c", search).split()
    assert printed[2] in ("False", "[]")
    assert (printed[0], printed[1], printed[3]) == (COMPILER[kind], "None", "False")


def test_what_an_image_is_for_can_be_imported_in_it_as_a_stage_runs(built: tuple[str, str]) -> None:
    kind, image = built
    fields = {"run_id": "r", "recipe": "x", "stage": "sft", "component": "sft", "params": {}, "inputs": {}, "seed": 0}
    job = Job.model_validate({**fields, "store": "s3://any/store", "resources": {"memory_gib": 8}})
    command = Containers("podman", {"cpu": image}, "none").command(job, f"import-{uuid.uuid4().hex[:8]}", {})
    command[-1:] = ["--entrypoint", "python", image, "-c", f"import {LIBRARIES[kind]}; print('imported')"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.stdout.endswith("imported\n"), done.stderr
