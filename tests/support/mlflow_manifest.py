"""The tracking server as the cluster's manifest has it: its containers' commands and variables, with secrets."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

MANIFEST = Path(__file__).parents[2] / "infra" / "kubernetes" / "base" / "mlflow.yaml"
SERVER, ACCOUNTS = "mlflow", "accounts"


@dataclass(frozen=True)
class Container:
    """A container of the server's pod."""

    command: list[str]
    variables: dict[str, str]
    spec: dict[str, Any]


def pod() -> dict[str, Any]:
    """Return the specification of the server's pod."""
    manifests = yaml.safe_load_all(MANIFEST.read_text())
    return next(one for one in manifests if one["kind"] == "Deployment")["spec"]["template"]["spec"]


def secrets(database: str, artifacts: str) -> dict[str, str]:
    """Return name/key -> value for the Secrets and ConfigMaps that the manifest names; passwords are drawn."""
    return {
        "mlflow-database/uri": database,
        "mlflow-server/admin-username": "admin",
        "mlflow-server/admin-password": f"admin-%-{uuid.uuid4().hex}",  # a sign of settings files
        "mlflow-server/forms-key": uuid.uuid4().hex,
        "mlflow-stage/MLFLOW_TRACKING_USERNAME": "stage",
        "mlflow-stage/MLFLOW_TRACKING_PASSWORD": f"stage-{uuid.uuid4().hex}",
        "mlflow/artifacts": artifacts,
    }


def container(name: str, given: Mapping[str, str], folders: Mapping[str, Path] | None = None) -> Container:
    """Return a container with `given` for its secrets; `folders` stand for places where it mounts something."""
    spec = next(one for one in [*pod()["initContainers"], *pod()["containers"]] if one["name"] == name)
    variables = {item["name"]: item["value"] if "value" in item else given[_source(item)] for item in spec["env"]}
    for place, folder in (folders or {}).items():
        variables = {key: value.replace(place, str(folder)) for key, value in variables.items()}
    command = [_filled(part, variables) for part in spec["command"]]
    return Container(command, variables, spec)


def _filled(part: str, variables: Mapping[str, str]) -> str:
    """Return a part of a command as Kubernetes fills it: $(NAME) is the variable's value."""
    for name, value in variables.items():
        part = part.replace(f"$({name})", value)
    return part


def _source(item: Mapping[str, Any]) -> str:
    """Return where a variable comes from: the name and the key of a Secret or a ConfigMap."""
    (source,) = item["valueFrom"].values()
    return f"{source['name']}/{source['key']}"
