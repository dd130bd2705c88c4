"""What this command made in a cluster, written down before it is made: nothing else is ever deleted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.language.whole_file import write_whole
from tests.cluster.kubectl import Kubectl, KubectlFailed

MARK = ("posttrain.dev/made-by", "test-cluster")
"""Label of all that is made here."""
CORDON = "Cordon"
"""Kind of an entry that is a node without new pods, and no object."""
HOLDS = "pods,jobs,deployments,statefulsets,persistentvolumeclaims"
"""What keeps a namespace from being deleted: somebody uses it."""


@dataclass(frozen=True)
class Made:
    """The list of what was made, in a file."""

    kubectl: Kubectl
    path: Path

    def create(self, wanted: dict[str, Any], *, temporary: bool = False) -> bool:
        """Create an object unless one of its name exists, which is left as it is; return whether it was created."""
        text = json.dumps(_marked(wanted))
        if self.kubectl.said("get", "-f", "-", "--ignore-not-found", "-o", "name", given=text).strip():
            return False
        self._add(_entry(wanted, temporary))
        self.kubectl.said("create", "-f", "-", given=text)
        return True

    @contextmanager
    def for_a_while(self, wanted: dict[str, Any]) -> Iterator[None]:
        """Create an object, and delete it in the end; one that exists already is somebody else's: KubectlFailed."""
        if not self.create(wanted, temporary=True):
            raise KubectlFailed(f"{wanted['kind']} {wanted['metadata']['name']} exists already")
        try:
            yield
        finally:
            self.undo(_entry(wanted, True))

    @contextmanager
    def cordoned(self, node: str) -> Iterator[None]:
        """Let a node get no new pods for a while."""
        entry = {"kind": CORDON, "name": node, "temporary": True}
        self._add(entry)
        try:
            self.kubectl.said("cordon", node)
            yield
        finally:
            self.undo(entry)

    def undo_temporary(self) -> list[str]:
        """Undo what a step left that was killed; return the names."""
        left = [entry for entry in self.entries() if entry["temporary"]]
        for entry in left:
            self.undo(entry)
        return [entry["name"] for entry in left]

    def undo_all(self) -> tuple[list[str], list[str]]:
        """Undo everything, the last first; return the names of what is gone, and why the rest is not."""
        gone, kept = [], []
        for entry in reversed(self.entries()):
            why = self.undo(entry)
            gone, kept = (gone, [*kept, why]) if why else ([*gone, f"{entry['kind']} {entry['name']}"], kept)
        return gone, kept

    def undo(self, entry: dict[str, Any]) -> str | None:
        """Undo one entry; return why it was left, if it was."""
        if entry["kind"] == CORDON:
            self.kubectl.said("uncordon", entry["name"])
        elif why := self._why_not(entry):
            return why
        else:
            words = ("--ignore-not-found", "--wait=false")
            self.kubectl.said("delete", "-f", "-", *words, given=json.dumps(_object(entry)))
        self._write([other for other in self.entries() if other != entry])
        return None

    def entries(self) -> list[dict[str, Any]]:
        """Return what was made and not undone, in order."""
        return json.loads(self.path.read_text()) if self.path.is_file() else []

    def _why_not(self, entry: dict[str, Any]) -> str | None:
        named = f"{entry['kind']} {entry['name']}"
        words = ("--ignore-not-found", "-o", "json")
        text = self.kubectl.said("get", "-f", "-", *words, given=json.dumps(_object(entry)))
        if not text.strip():
            return None
        if _alone(json.loads(text))["metadata"].get("labels", {}).get(MARK[0]) != MARK[1]:
            return f"{named} has lost the label {MARK[0]}: somebody else made it anew"
        if entry["kind"] == "Namespace":
            used = self.kubectl.said("-n", entry["name"], "get", HOLDS, "-o", "name").split()
            return f"{named} is in use: {', '.join(used[:3])}" if used else None
        return None

    def _add(self, entry: dict[str, Any]) -> None:
        self._write([*(other for other in self.entries() if other != entry), entry])

    def _write(self, entries: Iterable[dict[str, Any]]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, json.dumps(list(entries), indent=1) + "\n")


def _alone(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the one object of kubectl's answer: what it gets by a file (`-f -`) it prints as a List."""
    if answer["kind"] != "List":
        return answer
    (item,) = answer["items"]
    return item


def _marked(wanted: dict[str, Any]) -> dict[str, Any]:
    labels = {**wanted["metadata"].get("labels", {}), MARK[0]: MARK[1]}
    return {**wanted, "metadata": {**wanted["metadata"], "labels": labels}}


def _entry(wanted: dict[str, Any], temporary: bool) -> dict[str, Any]:
    metadata = wanted["metadata"]
    place = {"namespace": metadata["namespace"]} if "namespace" in metadata else {}
    names = {"apiVersion": wanted["apiVersion"], "kind": wanted["kind"], "name": metadata["name"]}
    return {**names, **place, "temporary": temporary}


def _object(entry: dict[str, Any]) -> dict[str, Any]:
    metadata = {name: entry[name] for name in ("name", "namespace") if name in entry}
    return {"apiVersion": entry["apiVersion"], "kind": entry["kind"], "metadata": metadata}
