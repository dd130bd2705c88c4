"""What is installed in a cluster: infra/kubernetes/addons.yaml, read and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from components.contract.errors import InputError
from infra.deploy.settings import INFRA, Settings

ADDONS = INFRA / "kubernetes" / "addons.yaml"


class Addon(BaseModel):
    """A chart, or a folder of kustomize; see the head of addons.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=r"^[a-z][a-z0-9-]+$")
    kind: Literal["chart", "kustomization"]
    address: str
    namespace: str
    chart: str = ""
    version: str = ""
    was: str = ""
    sha256: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    values: tuple[str, ...] = ()
    clouds: tuple[str, ...] = ("aws", "gcp", "local")
    engine: str = ""

    @model_validator(mode="after")
    def _whole(self) -> Addon:
        if self.kind == "chart" and not (self.chart and self.version):
            raise ValueError("a chart has a name and a version")
        if self.kind == "kustomization" and (self.address.startswith("https://")) != bool(self.version):
            raise ValueError("a folder of others has a commit as its version, and one of ours has none")
        return self

    @property
    def is_ours(self) -> bool:
        """Return whether it is a folder of infra."""
        return "://" not in self.address

    def place(self, cloud: str) -> str:
        """Return the address for a cloud: a folder of this machine, or an address with its commit."""
        if self.is_ours:
            return str(INFRA / self.address.replace("{cloud}", cloud))
        return f"{self.address}?ref={self.version}" if self.kind == "kustomization" else self.address

    def value_files(self, cloud: str) -> list[Path]:
        """Return the files of values; those of a cloud may be missing."""
        files = [(name, INFRA / name.replace("{cloud}", cloud)) for name in self.values]
        return [path for name, path in files if "{cloud}" not in name or path.exists()]


def read_addons(path: Path = ADDONS) -> list[Addon]:
    """Return all that may be installed, in order; raise InputError for an entry that is wrong."""
    found = []
    for number, entry in enumerate(yaml.safe_load(path.read_text())["addons"], 1):
        try:
            found.append(Addon(**entry))
        except (ValidationError, TypeError) as error:
            raise InputError(f"{path}: entry {number}: {error}") from None
    names = [one.name for one in found]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(f"{path}: {', '.join(sorted(twice))} is there twice")
    return found


def wanted(settings: Settings, addons: list[Addon]) -> list[Addon]:
    """Return what belongs to a cloud and to the engines that are wanted."""
    return [one for one in addons if settings.cloud in one.clouds and one.engine in ("", *settings.engines)]
