"""Step cloud: terraform makes the cluster, the bucket and the databases; step context: kubectl learns where it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from infra.deploy.kept import kept_addresses
from infra.deploy.site import Change, Site
from infra.deploy.tools import LONG_SECONDS, StepFailed

PLAN = "plan.bin"
VERBS = {("create",): "+", ("update",): "~", ("delete",): "-", ("delete", "create"): "-/+", ("create", "delete"): "-/+"}


class Cloud:
    """What terraform makes; its plan is written to a file, and exactly that plan is applied."""

    name = "cloud"

    def __init__(self, site: Site) -> None:
        self.site = site
        self._shown: list[str] | None = None

    def plan(self) -> Change:
        """Return what terraform would change, as it says; asked once, so that what is applied is what was shown."""
        if self._shown is None:
            self._shown = self._planned()
        return Change(self._shown)

    def apply(self) -> None:
        """Apply the plan that was shown, and keep the outputs for the steps that follow.

        Terraform refuses a plan if somebody else has changed something since.
        """
        self._shown = None
        self.site.terraform("apply", "-input=false", "-no-color", str(self._file), seconds=LONG_SECONDS, shown=True)
        self.note()

    def note(self) -> None:
        """Keep terraform's outputs; none of them is secret."""
        told = json.loads(self.site.terraform("output", "-json").stdout)
        self.site.keep("outputs.json", {name: one["value"] for name, one in told.items() if not one.get("sensitive")})

    def wait(self) -> None:
        """Terraform ends when all of it is there; on another machine its outputs have yet to be kept."""
        if not self.site.outputs:
            self.note()

    def removal(self) -> Change:
        """Return what would be taken down; bucket, databases and images only if that was asked for."""
        self._ready()
        targets = self._targets()
        return Change(self._planned("-destroy", *targets)) if targets else Change()

    def remove(self) -> None:
        """Take down what the plan shows; where data goes too, its protection is taken off first."""
        if self.site.settings.destroy_data:
            addresses = self.site.terraform("state", "list", fine=(0, 1)).stdout.splitlines()
            targets = [f"-target={one}" for one in sorted(kept_addresses(self.site.settings.cloud, addresses))]
            words = ("-input=false", "-no-color", "-auto-approve", *self._variables(), "-var", "keep_data=false")
            if targets:  # without one, what is gone already would be made again
                self.site.terraform("apply", *words, *targets, seconds=LONG_SECONDS, shown=True)
        if targets := self._targets():
            self._planned("-destroy", *targets)
            self.site.terraform("apply", "-input=false", "-no-color", self._file, seconds=LONG_SECONDS, shown=True)

    def _targets(self) -> list[str]:
        """Return the options that leave data alone, by naming all else; none if nothing is to go."""
        addresses = self.site.terraform("state", "list", fine=(0, 1)).stdout.splitlines()
        if self.site.settings.destroy_data:
            return ["-var", "keep_data=false"] if addresses else []
        kept = kept_addresses(self.site.settings.cloud, addresses)
        return [f"-target={one}" for one in addresses if one not in kept and not one.startswith("data.")]

    def _planned(self, *options: str) -> list[str]:
        """Write a plan to a file, and return a line for each resource that it changes."""
        self._ready()
        words = ("-input=false", "-no-color", "-detailed-exitcode", f"-out={self._file}", *self._variables(), *options)
        done = self.site.terraform("plan", *words, fine=(0, 2), seconds=LONG_SECONDS)
        if done.returncode == 0:
            return []
        shown: dict[str, Any] = json.loads(self.site.terraform("show", "-json", str(self._file)).stdout)
        changes = shown.get("resource_changes", [])
        lines = [(VERBS.get(tuple(one["change"]["actions"])), one["address"]) for one in changes]
        return [f"{verb} {address}" for verb, address in lines if verb] or ["~ outputs"]

    def _ready(self) -> None:
        self.site.settings.folder.mkdir(parents=True, exist_ok=True)
        self.site.settings.folder.chmod(0o700)  # a plan holds what terraform's state does, in the clear
        self.site.terraform("init", "-input=false", "-no-color", seconds=LONG_SECONDS)
        self.site.terraform("workspace", "select", "-or-create", self.site.settings.name)

    def _variables(self) -> list[str]:
        path = self.site.settings.tfvars
        return [f"-var-file={Path(path).resolve()}"] if path else []

    @property
    def _file(self) -> str:
        return str((self.site.settings.folder / PLAN).resolve())


class Context:
    """kubectl's entry for the cluster that terraform made."""

    name = "context"

    def __init__(self, site: Site) -> None:
        self.site = site

    def plan(self) -> Change:
        """Return whether kubectl has yet to learn of the cluster."""
        known = self.site.tools.said("kubectl", "config", "get-contexts", "-o", "name").split()
        if self.site.settings.context not in known:
            return Change([f"+ context {self.site.settings.context}"])
        self.site.check_context()
        return Change()

    def apply(self) -> None:
        """Write the entry to kubectl's configuration."""
        given, name = self.site.outputs, self.site.settings.context
        if not given:
            raise StepFailed("there are no outputs of terraform yet: take the step cloud first")
        if self.site.settings.cloud == "aws":
            words = ("--name", given["cluster"], "--region", given["region"], "--alias", name)
            self.site.tools.run("aws", "eks", "update-kubeconfig", *words)
            return
        place = ("--location", given["location"], "--project", given["project"])
        self.site.tools.run("gcloud", "container", "clusters", "get-credentials", given["cluster"], *place)
        made = f"gke_{given['project']}_{given['location']}_{given['cluster']}"
        self.site.tools.run("kubectl", "config", "rename-context", made, name)

    def wait(self) -> None:
        """Wait until the cluster answers."""
        self.site.kubectl("version", "-o", "json")

    def removal(self) -> Change:
        """Return whether the entry is there."""
        return Change([f"- context {self.site.settings.context}"] if not self.plan() else [])

    def remove(self) -> None:
        """Remove the entry."""
        self.site.tools.run("kubectl", "config", "delete-context", self.site.settings.context)
