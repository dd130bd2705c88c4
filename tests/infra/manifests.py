"""What an overlay of infra/kubernetes is made into, and the pods of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from tests.infra.conftest import INFRA

Manifest = dict[str, Any]
KUBERNETES = INFRA / "kubernetes"


def rendered(overlay: str) -> tuple[Manifest, ...]:
    """Return the manifests of an overlay, such as aws or aws/kubeflow."""
    return build(f"overlays/{overlay}")


def folder_of(path: str) -> str:
    """Return a folder of infra/kubernetes by its place on this machine, as `build` takes it."""
    return os.path.relpath(path, KUBERNETES)


@cache
def build(folder: str) -> tuple[Manifest, ...]:
    """Return what a folder of infra/kubernetes is made into."""
    command = ["kubectl", "kustomize", str(KUBERNETES / folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return tuple(yaml.safe_load_all(done.stdout))


def of_kind(manifests: tuple[Manifest, ...], kind: str) -> list[Manifest]:
    """Return the manifests of a kind."""
    return [manifest for manifest in manifests if manifest["kind"] == kind]


def templates(manifests: tuple[Manifest, ...]) -> Iterator[tuple[str, Manifest]]:
    """Yield the name and the template of everything that makes pods."""
    for manifest in manifests:
        spec = manifest.get("spec", {})
        if manifest["kind"] == "Deployment":
            yield manifest["metadata"]["name"], spec["template"]
        if manifest["kind"] == "CronJob":
            yield manifest["metadata"]["name"], spec["jobTemplate"]["spec"]["template"]
