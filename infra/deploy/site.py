"""One deployment while it is worked on: its settings, its programs, and what earlier steps found."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from components.contract.terminal import visible_line
from infra.deploy.addons import Addon, read_addons, wanted
from infra.deploy.settings import INFRA, Settings
from infra.deploy.tools import StepFailed, Tools
from infra.deploy.words import words
from pipelines.language.whole_file import write_whole

MANAGER = "posttrain-deploy"
"""Who owns the fields that are applied."""
_PINNED = re.compile(r"[a-z0-9.:/_-]+@sha256:[0-9a-f]{64}")


@dataclass
class Change:
    """What a step would do: a line for each thing; none if all is as it should be."""

    lines: list[str] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.lines)


@dataclass
class Site:
    """What all steps share."""

    settings: Settings
    tools: Tools
    addons: list[Addon] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.addons = self.addons or wanted(self.settings, read_addons())

    @property
    def terraform_folder(self) -> Path:
        """Return the folder of the cloud's terraform."""
        return INFRA / "terraform" / self.settings.cloud

    def terraform(self, *arguments: str, **how: Any) -> Any:
        """Run terraform in its folder, in the workspace of this deployment."""
        told = {"TF_IN_AUTOMATION": "1", "TF_INPUT": "0"}
        return self.tools.run("terraform", f"-chdir={self.terraform_folder}", *arguments, environ=told, **how)

    def kubectl(self, *arguments: str, **how: Any) -> Any:
        """Run kubectl on the cluster of the context, and on no other."""
        return self.tools.run("kubectl", "--context", self.settings.context, *arguments, **how)

    def helm(self, *arguments: str, **how: Any) -> Any:
        """Run helm on the cluster of the context, and on no other."""
        return self.tools.run("helm", "--kube-context", self.settings.context, *arguments, **how)

    @property
    def outputs(self) -> dict[str, Any]:
        """Return terraform's outputs as the step cloud left them; none before it."""
        return dict(self.kept("outputs.json"))

    @property
    def images(self) -> dict[str, str]:
        """Return kind of image -> name@sha256:..., as given, else as the step images pushed it."""
        pushed = {kind: one["name"] for kind, one in self.kept("images.json").items()}
        found = {kind: name for kind, name in {**pushed, **self.settings.images}.items() if kind in self.settings.kinds}
        for kind, name in found.items():
            if not _PINNED.fullmatch(name):
                raise StepFailed(f"POSTTRAIN_IMAGE_{kind.upper()}={name}: expected name@sha256:<64 hexadecimal digits>")
        return found

    @property
    def words(self) -> dict[str, str]:
        """Return what stands in manifests -> what belongs there; StepFailed before the step cloud."""
        if self.settings.is_cloud and not self.outputs:
            raise StepFailed("there are no outputs of terraform yet: take the step cloud first")
        return words(self.settings.cloud, self.outputs, self.images, self.settings.host)

    @property
    def cluster_is_there(self) -> bool:
        """Return whether the cluster answers; False where terraform has yet to make it."""
        if self.settings.is_cloud and not self.outputs:
            return False
        known = self.tools.run("kubectl", "config", "get-contexts", self.settings.context, "-o", "name", fine=(0, 1))
        if known.returncode:
            return False
        self.check_context()
        try:
            self.kubectl("version", "-o", "json")
        except StepFailed as error:
            name = self.settings.context
            raise StepFailed(f"the cluster of the context {name} does not answer, or not to you ({error})") from None
        return True

    def check_context(self) -> None:
        """Raise StepFailed if kubectl's entry is of another cluster than the one that terraform made.

        A name such as `prod` is easily there already, and everything that follows would change that cluster.
        """
        given, name = self.outputs, self.settings.context
        if not self.settings.is_cloud or not given:
            return
        entry = f"jsonpath={{.contexts[?(@.name=='{name}')].context.cluster}}"
        found = self.tools.said("kubectl", "config", "view", "-o", entry).strip()
        if self.settings.cloud == "aws":  # as aws eks update-kubeconfig and gcloud name their entries
            right = f":{given['region']}:" in found and found.endswith(f":cluster/{given['cluster']}")
        else:
            right = found == f"gke_{given['project']}_{given['location']}_{given['cluster']}"
        if not right:
            raise StepFailed(
                f"kubectl's context {name} is of another cluster ({visible_line(found)}) than terraform's "
                f"{given['cluster']}: rename it (kubectl config rename-context {name} OTHER), or choose another CONTEXT"
            )

    def kept(self, name: str) -> dict[str, Any]:
        """Return what was kept in a file of this deployment's folder."""
        path = self.settings.folder / name
        found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
        return found

    def keep(self, name: str, value: dict[str, Any]) -> Path:
        """Keep something in this deployment's folder; nothing secret is ever kept there."""
        path = self.settings.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(value, indent=1, sort_keys=True) + "\n")
        return path
