"""Stand-ins for terraform, kubectl, helm and the clouds' programs: they keep a world, note calls, fail when told."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import yaml

from tests.infra.manifests import build, folder_of

ARCHIVE = b"a chart's archive"
ARCHIVE_SUM = hashlib.sha256(ARCHIVE).hexdigest()
DIGEST = "sha256:" + "7" * 64
CHANGING = ("apply", "upgrade", "create", "push", "uninstall", "delete", "update-kubeconfig", "get-credentials")
KINDS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
---
apiVersion: v1
kind: Namespace
metadata: {name: kubeflow}
"""
OTHERS = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: ml-pipeline, namespace: kubeflow}
"""
CLUSTER_WIDE = ("Namespace", "CustomResourceDefinition", "PriorityClass", "StorageClass", "ClusterTrainingRuntime",
                "ClusterQueue", "ResourceFlavor")  # fmt: skip
Object = dict[str, Any]


@dataclass
class World:
    """What there is, and what was called."""

    outputs: dict[str, Any] = field(default_factory=dict)
    addresses: list[str] = field(default_factory=list)
    context: str = "pt"
    state: list[str] = field(default_factory=list)
    contexts: list[str] = field(default_factory=list)
    objects: dict[str, Object] = field(default_factory=dict)
    releases: dict[str, Object] = field(default_factory=dict)
    calls: list[list[str]] = field(default_factory=list)
    given: list[str] = field(default_factory=list)
    foreign: str = ""
    """What kubectl's entry names in the place of terraform's cluster."""
    fails: Callable[[list[str]], bool] = lambda _: False

    def changes(self) -> list[list[str]]:
        """Return the calls that change something."""
        return [call for call in self.calls if set(call) & set(CHANGING) and "-dry-run" not in call]

    def call(self, command: tuple[str, ...], **how: Any) -> CompletedProcess[str]:
        """Be a program: as subprocess.run is called."""
        words = list(command)
        self.calls.append(words)
        self.given.append(how.get("input") or "")
        if self.fails(words):
            return _done(words, 1, "", "Error: no capacity\x1b[31m for this\nUsage: ask for less")
        return getattr(self, f"_{Path(words[0]).name.removesuffix('.sh')}")(words, how.get("input") or "")

    def _terraform(self, words: list[str], _given: str) -> CompletedProcess[str]:
        verb = words[2]
        if verb == "plan":
            Path(_option(words, "-out=")).write_text(json.dumps(words))
            gone = self._gone(words)
            differs = bool(gone) if "-destroy" in words else not self.state
            return _done(words, 2 if differs else 0)
        if verb == "show":
            planned = json.loads(Path(words[-1]).read_text())
            destroys = "-destroy" in planned
            names = self._gone(planned) if destroys else self.addresses
            action = "delete" if destroys else "create"
            return _said(
                words, {"resource_changes": [{"address": one, "change": {"actions": [action]}} for one in names]}
            )
        if verb == "apply" and words[-1].endswith(".bin"):
            planned = json.loads(Path(words[-1]).read_text())
            gone = self._gone(planned) if "-destroy" in planned else []
            self.state = (
                [one for one in self.state if one not in gone] if "-destroy" in planned else list(self.addresses)
            )
        if verb == "output":
            return _said(words, {name: {"value": value} for name, value in self.outputs.items()} if self.state else {})
        return _done(words, 0, "\n".join(self.state) if verb == "state" else "")

    def _gone(self, words: list[str]) -> list[str]:
        targets = [word.removeprefix("-target=") for word in words if word.startswith("-target=")]
        return [one for one in self.state if one in targets] if targets else list(self.state)

    def _kubectl(self, words: list[str], given: str) -> CompletedProcess[str]:
        if words[1] == "config":
            return self._config(words)
        if words[1] == "kustomize":
            if words[2].startswith("https://"):
                return _done(words, 0, KINDS if "cluster-scoped" in words[2] else OTHERS)
            return _done(words, 0, yaml.dump_all(build(folder_of(words[2])), Dumper=yaml.CSafeDumper))
        assert words[1:3] == ["--context", self.context], "no other cluster is touched"
        rest = words[3:]
        space = rest[1] if rest[0] == "-n" else ""
        verb, *rest = rest[2:] if space else rest
        documents = [one for one in yaml.load_all(given, yaml.CSafeLoader) if one] if "-f" in rest else []
        if verb == "diff":
            return self._diff(words, documents)
        if verb in ("apply", "create"):
            for one in documents:
                self.objects[_name(one)] = one
        if verb == "delete" and rest[0] == "namespaces":
            own = dict([rest[2].split("=")])
            gone = {one["metadata"]["name"] for one in self.objects.values() if one["metadata"].get("labels") == own}
            self.objects = {
                name: one for name, one in self.objects.items() if name.removeprefix("Namespace//") not in gone
            }
        elif verb == "delete":
            names = [_name(one) for one in documents] or [f"Secret/{space}/{rest[1]}"]
            for name in names:
                self.objects.pop(name, None)
        return _done(words, 0, self._got(rest, space, documents) if verb == "get" else "")

    def _config(self, words: list[str]) -> CompletedProcess[str]:
        if words[2] == "delete-context":
            self.contexts.remove(words[3])
        if words[2] == "rename-context":
            self.contexts = [words[4] if one == words[3] else one for one in self.contexts]
        if words[2] == "view":
            return _done(words, 0, self.foreign or self._entry() if self.context in self.contexts else "")
        if words[2] != "get-contexts":
            return _done(words, 0)
        named = [word for word in words[3:] if not word.startswith("-") and word != "name"]
        found = [one for one in self.contexts if not named or one in named]
        return _done(words, 0 if found or not named else 1, "\n".join(found))

    def _entry(self) -> str:
        """Return how the clouds' programs name the cluster in kubectl's configuration."""
        made = self.outputs
        if "project" in made:
            return f"gke_{made['project']}_{made['location']}_{made['cluster']}"
        return f"arn:aws:eks:{made['region']}:123456789012:cluster/{made['cluster']}"

    def _diff(self, words: list[str], documents: list[Object]) -> CompletedProcess[str]:
        spaces = {one["metadata"].get("namespace") for one in documents} - {None, "kube-system"}
        made = {one["metadata"]["name"] for one in [*documents, *self.objects.values()] if one["kind"] == "Namespace"}
        if spaces - made:
            return _done(words, 2, "", f'Error from server (NotFound): namespaces "{min(spaces - made)}" not found')
        differs = [_name(one) for one in documents if self.objects.get(_name(one)) != one]
        return _done(words, 1 if differs else 0, "".join(f"+++ /tmp/LIVE/{one.replace('/', '.')}\n" for one in differs))

    def _got(self, rest: list[str], space: str, documents: list[Object]) -> str:
        if documents:
            return "\n".join(
                f"{one['kind']}/{one['metadata']['name']}" for one in documents if _name(one) in self.objects
            )
        if rest[0] == "secret":
            found = self.objects.get(f"Secret/{space}/{rest[1]}")
            data = {
                key: base64.b64encode(text.encode()).decode()
                for key, text in (found or {}).get("stringData", {}).items()
            }
            return json.dumps({"data": data}) if found else ""
        if rest[0] == "namespace":
            return f"namespace/{rest[1]}" if f"Namespace//{rest[1]}" in self.objects else ""
        if rest[0] == "pods":
            return json.dumps({"items": [one for one in self.objects.values() if one["kind"] == "Pod"]})
        named = [one for one in self.objects.values() if one["kind"] in ("Deployment", "StatefulSet", "DaemonSet")]
        return "\n".join(
            f"deployment/{one['metadata']['name']}" for one in named if one["metadata"].get("namespace") == space
        )

    def _helm(self, words: list[str], _given: str) -> CompletedProcess[str]:
        if words[1] == "pull":
            folder, version = words[words.index("--destination") + 1], words[words.index("--version") + 1]
            chart = Path(words[2]).name
            (Path(folder) / f"{chart}-{version}.tgz").write_bytes(ARCHIVE)
            return _done(words, 0)
        assert words[1:3] == ["--kube-context", self.context], "no other cluster is touched"
        verb, *rest = words[5:]
        if verb == "list":
            name = rest[rest.index("--filter") + 1].strip("^$")
            there = self.releases.get(name)
            return _said(
                words,
                [{"name": name, "chart": there["chart"], "status": there.get("status", "deployed")}] if there else [],
            )
        if verb == "rollback":
            self.releases[rest[0]].pop("status")
        if verb == "upgrade":
            if self.releases.get(rest[1], {}).get("status", "deployed").startswith("pending"):
                return _done(
                    words, 1, "", "Error: UPGRADE FAILED: another operation (install/upgrade/rollback) is in progress"
                )
            values = yaml.safe_load(Path(rest[rest.index("--values") + 1]).read_text()) if "--values" in rest else {}
            self.releases[rest[1]] = {"chart": Path(rest[2]).name.removesuffix(".tgz"), "values": values}
        if verb == "uninstall":
            self.releases.pop(rest[0])
        if verb == "get" and rest[0] == "values":
            return _said(words, self.releases[rest[1]]["values"] or None)
        return _done(words, 0)

    def _aws(self, words: list[str], _given: str) -> CompletedProcess[str]:
        if "update-kubeconfig" in words:
            self.contexts.append(words[words.index("--alias") + 1])
        secret = json.dumps({"username": "owner", "password": "p@ss/word"})
        return _done(words, 0, secret if "get-secret-value" in words else "token")

    def _gcloud(self, words: list[str], _given: str) -> CompletedProcess[str]:
        if "get-credentials" in words:
            self.contexts.append(f"gke_{self.outputs['project']}_{self.outputs['location']}_{self.outputs['cluster']}")
        if "hmac" in words:
            return _said(words, {"metadata": {"accessId": "GOOGKEY"}, "secret": "hmac-secret"})
        return _done(words, 0, "token" if "print-access-token" in words else "")

    def _podman(self, words: list[str], _given: str) -> CompletedProcess[str]:
        if words[1] == "push":
            Path(words[words.index("--digestfile") + 1]).write_text(DIGEST)
        return _done(words, 0, "sha256:" + "5" * 64 if words[1] == "image" else "")


def _name(one: Object) -> str:
    """Return kind, namespace and name, as the API server tells objects apart."""
    space = "" if one["kind"] in CLUSTER_WIDE else one["metadata"].get("namespace", "")
    return f"{one['kind']}/{space}/{one['metadata']['name']}"


def _option(words: list[str], start: str) -> str:
    return next(word for word in words if word.startswith(start)).removeprefix(start)


def _said(words: list[str], value: Any) -> CompletedProcess[str]:
    return _done(words, 0, json.dumps(value))


def _done(words: list[str], code: int, out: str = "", error: str = "") -> CompletedProcess[str]:
    return CompletedProcess(words, code, out, error)
