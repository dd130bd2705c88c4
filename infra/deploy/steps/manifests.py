"""Kustomizations, of others by their commit and our own: built, filled in, compared, applied on the server's side."""

from __future__ import annotations

import json
from typing import Any

import yaml

from infra.deploy.addons import Addon
from infra.deploy.site import MANAGER, Change, Site
from infra.deploy.steps.ready import wait_for_kinds, wait_for_workloads
from infra.deploy.tools import StepFailed
from infra.deploy.words import check_filled, filled

UNKNOWN = ("not found", "no matches for kind", "could not find the requested resource", "ensure CRDs are installed")
"""How kubectl says that the namespace or the kind of an object does not exist yet."""
OPTIONS = ("--server-side", "--force-conflicts", f"--field-manager={MANAGER}")


class Manifests:
    """One kustomization. Fields of others (replicas that an autoscaler set, say) are left to them."""

    def __init__(self, site: Site, addon: Addon) -> None:
        self.site, self.addon, self.name = site, addon, addon.name
        self._built: list[dict[str, Any]] = []

    def plan(self) -> Change:
        """Return the objects that differ from what the cluster has."""
        shown = f"{self.addon.address} {self.addon.was or self.addon.version}".strip()
        if not self.site.cluster_is_there:
            return Change([f"+ {shown}"])
        words = ("diff", "--server-side", "--force-conflicts", f"--field-manager={MANAGER}", "-f", "-")
        done = self.site.kubectl(*words, given=self._text(), fine=(0, 1, 2))
        if done.returncode == 0:
            return Change()
        said = done.stderr.strip()
        if not done.stdout and said:
            if any(words in said for words in UNKNOWN):
                return Change([f"+ {shown}"])
            raise StepFailed(f"kubectl diff: {said.splitlines()[-1]}")
        names = [line.rpartition("/")[2] for line in done.stdout.splitlines() if line.startswith("+++ ")]
        return Change([f"~ {name.split()[0]}" for name in names] or [f"~ {shown}"])

    def apply(self) -> None:
        """Apply all objects: kinds first, so that objects of these kinds are known."""
        objects = self.objects()
        kinds = [one for one in objects if one["kind"] in ("CustomResourceDefinition", "Namespace")]
        if kinds:
            self.site.kubectl("apply", *OPTIONS, "-f", "-", given=_dumped(kinds))
            wait_for_kinds(self.site, kinds)
        self.site.kubectl("apply", *OPTIONS, "-f", "-", given=self._text())

    def wait(self) -> None:
        """Wait for others' workloads; ours wait for Secrets, and are waited for at the end."""
        if not self.addon.is_ours:
            wait_for_workloads(self.site, self.addon.namespace)

    def removal(self) -> Change:
        """Return whether something of it is there."""
        if not self.site.cluster_is_there:
            return Change()
        words = ("get", "-f", "-", "--ignore-not-found", "-o", "name")
        done = self.site.kubectl(*words, given=_dumped(self.objects(complete=False)), fine=(0, 1))
        return Change([f"- {name}" for name in done.stdout.split()])

    def remove(self) -> None:
        """Delete all its objects, and wait until they are gone."""
        given = _dumped(self.objects(complete=False))
        self.site.kubectl(
            "delete", "-f", "-", "--ignore-not-found", "--wait", "--timeout=600s", given=given, seconds=660
        )

    def objects(self, *, complete: bool = True) -> list[dict[str, Any]]:
        """Return the objects; `complete` asks that nothing is left to fill in, which what is removed need not be."""
        if not self._built:  # others' comes over the network
            text = self.site.tools.said("kubectl", "kustomize", self.addon.place(self.site.settings.cloud))
            self._built = [one for one in yaml.safe_load_all(text) if one]
        objects = self._built
        if self.addon.is_ours:
            objects = filled(objects, self.site.words)
            if complete:
                check_filled(self.addon.address, objects)
        return objects

    def _text(self) -> str:
        return _dumped(self.objects())


def _dumped(objects: list[dict[str, Any]]) -> str:
    return "".join(f"---\n{json.dumps(one)}\n" for one in objects)
