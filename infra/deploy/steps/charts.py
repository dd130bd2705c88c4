"""Charts: pulled once, compared with their sum, and installed from that file."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import yaml

from infra.deploy.addons import Addon
from infra.deploy.site import Change, Site
from infra.deploy.steps.ready import wait_for_workloads
from infra.deploy.tools import StepFailed
from infra.deploy.words import check_filled, filled
from pipelines.language.whole_file import write_whole

INSTALL_SECONDS = 1200
STATES = ("--deployed", "--failed", "--pending", "--uninstalling")


class Chart:
    """One release of a chart. It is as it should be if its version, its values and its state are."""

    def __init__(self, site: Site, addon: Addon) -> None:
        self.site, self.addon, self.name = site, addon, addon.name

    def plan(self) -> Change:
        """Return version now and then, and which objects would change."""
        wanted = f"{self.addon.chart} {self.addon.version}"
        if not self.site.cluster_is_there:
            return Change([f"+ {wanted}"])
        now = self._installed()
        if now is None:
            return Change([f"+ {wanted}"])
        version = now["chart"].rpartition("-")[2]
        if not now["chart"].endswith(f"-{self.addon.version}") or now["status"] != "deployed":
            return Change(
                [f"~ {self.addon.chart} {version} ({now['status']}) -> {self.addon.version}", *self._objects()]
            )
        told = self._helm("get", "values", self.name, "-o", "json").stdout
        if (json.loads(told) or {}) != self.values():
            return Change([f"~ values of {wanted}", *self._objects()])
        return Change()

    def apply(self) -> None:
        """Install or upgrade the release."""
        self._unblock()
        options = [word for path in self._value_files() for word in ("--values", str(path))]
        words = ("upgrade", "--install", self.name, str(self.archive()), "--create-namespace", "--history-max", "5")
        self._helm(*words, "--timeout", f"{INSTALL_SECONDS}s", *options, seconds=INSTALL_SECONDS + 60)

    def wait(self) -> None:
        """Wait until everything in its namespace is ready."""
        wait_for_workloads(self.site, self.addon.namespace)

    def removal(self) -> Change:
        """Return whether the release is there."""
        there = self.site.cluster_is_there and self._installed() is not None
        return Change([f"- {self.addon.chart} {self.addon.version}"] if there else [])

    def remove(self) -> None:
        """Remove the release, and wait until its objects are gone."""
        self._helm("uninstall", self.name, "--wait", "--timeout", "600s", seconds=660)

    def values(self) -> dict[str, Any]:
        """Return the values of all files, one over the other, with nothing left to fill in."""
        found: dict[str, Any] = {}
        for path in self.addon.value_files(self.site.settings.cloud):
            found = _merged(found, filled(yaml.safe_load(path.read_text()) or {}, self.site.words))
        if self.name == "airflow":
            found = _airflow(found, self.site)
        check_filled(f"values of {self.name}", found)
        return found

    def archive(self) -> Path:
        """Return the chart's archive, pulled if it is not there; StepFailed if it is not the one that is pinned."""
        folder = self.site.settings.folder / "charts"
        path = folder / f"{self.addon.chart}-{self.addon.version}.tgz"
        if not path.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            oci = self.addon.address.startswith("oci://")
            where = (
                [f"{self.addon.address}/{self.addon.chart}"]
                if oci
                else [self.addon.chart, "--repo", self.addon.address]
            )
            self.site.tools.run("helm", "pull", *where, "--version", self.addon.version, "--destination", str(folder))
        if not path.is_file():
            raise StepFailed(f"helm pull {self.addon.chart} left no {path.name} in {folder}")
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if self.addon.sha256 and found != self.addon.sha256:
            path.unlink()
            raise StepFailed(
                f"{path.name} is not the chart that was pinned: its SHA-256 is {found}, not {self.addon.sha256}"
            )
        return path

    def _installed(self) -> dict[str, Any] | None:
        told = self._helm("list", *STATES, "--filter", f"^{self.name}$", "-o", "json").stdout
        return next(iter(json.loads(told or "[]")), None)

    def _unblock(self) -> None:
        """Undo an installation or an upgrade that was killed half-way: helm refuses another one beside it."""
        now = self._installed()
        status = now["status"] if now else ""
        if status in ("pending-install", "uninstalling"):
            self._helm("uninstall", self.name, "--wait", "--timeout", "600s", seconds=660)
        elif status.startswith("pending"):
            self._helm("rollback", self.name, seconds=660)

    def _objects(self) -> list[str]:
        """Return which objects an upgrade would add, change and remove, by what the chart renders."""
        options = [word for path in self._value_files() for word in ("--values", str(path))]
        then = _objects(self._helm("template", self.name, str(self.archive()), *options).stdout)
        now = _objects(self._helm("get", "manifest", self.name).stdout)
        changed = [f"  ~ {name}" for name in then if name in now and then[name] != now[name]]
        return (
            [f"  + {name}" for name in then if name not in now]
            + changed
            + [f"  - {name}" for name in now if name not in then]
        )

    def _value_files(self) -> list[Path]:
        path = self.site.settings.folder / "values" / f"{self.name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, yaml.safe_dump(self.values(), sort_keys=False))
        return [path]

    def _helm(self, *arguments: str, **how: Any) -> Any:
        return self.site.helm("--namespace", self.addon.namespace, *arguments, **how)


def _objects(text: str) -> dict[str, Any]:
    documents = [one for one in yaml.safe_load_all(text) if one]
    return {f"{one['kind']}/{one['metadata']['name']}": one for one in documents}


def _merged(under: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Return values as helm merges them: mappings by key, all else replaced."""
    found = dict(under)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(found.get(key), dict)
        found[key] = _merged(found[key], value) if both else value
    return found


def _airflow(values: dict[str, Any], site: Site) -> dict[str, Any]:
    """Return Airflow's values with our images, and with an ingress only where there is a name for it."""
    images = site.images
    if "airflow" not in images:
        raise StepFailed("there is no image for Airflow: take the step images, or set POSTTRAIN_IMAGE_AIRFLOW")
    repository, _, digest = images["airflow"].partition("@")
    named = {f"POSTTRAIN_IMAGE_{kind.upper()}": name for kind, name in images.items() if kind != "airflow"}
    kept = [one for one in values["env"] if not one["name"].startswith("POSTTRAIN_IMAGE_")]
    own: dict[str, Any] = {
        "images": {"airflow": {"repository": repository, "digest": digest}},
        "env": [*({"name": name, "value": value} for name, value in named.items()), *kept],
    }
    if not site.settings.host:
        own |= {"ingress": {"apiServer": {"enabled": False, "hosts": []}}}
        own["config"] = {"api": {"base_url": "http://localhost:8080"}}
    return _merged(values, own)
