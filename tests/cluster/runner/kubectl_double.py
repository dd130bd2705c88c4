"""What kubectl does to the simulated cluster where a step calls it: quotas, drains, pods that are killed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.kubectl import KubectlFailed
from tests.support.api_server.cluster import SimulatedCluster, Step
from tests.support.api_server.events import DISRUPTING


@dataclass
class KubectlDouble:
    """The commands that steps use, by their first word."""

    context: str
    world: SimulatedCluster
    kill_driver: Callable[[], None]
    nodes: list[dict[str, Any]] = field(default_factory=lambda: [node("one"), node("two")])
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    called: list[tuple[str, ...]] = field(default_factory=list)
    tokens: set[str] = field(default_factory=set)
    """Those that Kubeflow takes."""
    drains: Step = DISRUPTING["evicted"]
    forbids: set[str] = field(default_factory=set)
    """Commands that fail."""

    def said(self, *words: str, given: str | None = None, timeout: float = 0.0) -> str:
        """Do what a command does."""
        place = 2 if words[0] == "-n" else 0
        word = words[place]
        self.called.append(words)
        if word in self.forbids:
            raise KubectlFailed(f"kubectl {word}: as the test wants it")
        item = json.loads(given) if given else {}
        name = f"{item['kind']}/{item['metadata']['name']}" if given else ""
        if word == "get":
            return self._got(words, name)
        if words[place : place + 2] == ("create", "token"):
            return self._token("--bound-object-name" in words)
        if word in ("create", "delete") and given:
            self._change(word, name, item)
        elif word == "delete":
            self.kill_driver()
        elif word == "drain":
            self.drains(self.world)
        return ""

    def items(self, kind: str, *words: str) -> list[dict[str, Any]]:
        """Return the nodes."""
        return self.nodes

    def _got(self, words: tuple[str, ...], name: str) -> str:
        """Answer `get -f -` as kubectl 1.32 and 1.36 do: a List, however few there are, and nothing for nothing."""
        item = self.objects.get(name)
        if item is None:
            if "--ignore-not-found" in words:
                return ""
            raise KubectlFailed(f"Error from server (NotFound): {name} not found")
        if words[-2:] == ("-o", "name"):
            return f"{name.lower()}\n"
        return json.dumps({"apiVersion": "v1", "items": [item], "kind": "List", "metadata": {"resourceVersion": ""}})

    def _token(self, bound: bool) -> str:
        told = "bound" if bound else "free"
        self.tokens.add(told)
        return f"{told}\n"

    def _change(self, word: str, name: str, item: dict[str, Any]) -> None:
        if word == "create":
            self.objects[name] = item
        else:
            self.objects.pop(name, None)
            self.tokens -= {"bound"}
        full = any(one["kind"] == "ResourceQuota" for one in self.objects.values())
        self.world.quota = self.world.stuck = full


def node(name: str, **spec: Any) -> dict[str, Any]:
    """Return a node that is ready."""
    ready = {"type": "Ready", "status": "True"}
    return {"metadata": {"name": name}, "spec": spec, "status": {"conditions": [ready]}}
