"""The lineage graph, read from the store alone: what made an artifact, and what was made from it.

Nodes are artifacts, the stages between them, registered versions, and the URIs of imported data. Edges point in the
direction of data flow. A stage that was reused from the cache appears once, as the work that really ran. An artifact
that stages pass on unchanged (adopt) appears once for each of them: the first node's id is the digest, the others' are
"digest@run/stage".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError, PosttrainError
from components.runtime.ledger.gather import gather_entries, gather_run
from components.runtime.ledger.ledger import Ledger
from components.runtime.ledger.mentions import Mentions
from components.runtime.lineage.graph.producers import Entry, Producers, handed_on, made, stage_id
from components.runtime.lineage.graph.references import Reference, resolve_reference
from components.runtime.lineage.registry import aliases_of, model_names, versions

if TYPE_CHECKING:
    from components.runtime.store import Store

ANCESTORS, DESCENDANTS = "ancestors", "descendants"
Node = dict[str, Any]


@dataclass
class Graph:
    """A lineage graph; `nodes` by id, in traversal order from the root."""

    root: str
    direction: str
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """(from, to, port), each once."""

    def add(self, node: Node) -> str:
        """Add a node unless it exists; return its id."""
        self.nodes.setdefault(node["id"], node)
        return node["id"]

    def connect(self, source: str, target: str, port: str = "") -> None:
        """Add an edge in the direction of data flow."""
        self.edges[source, target, port] = None

    def of_kind(self, kind: str) -> list[Node]:
        """Return the nodes of one kind: artifact, stage, registered or source."""
        return [node for node in self.nodes.values() if node["kind"] == kind]

    def to_json(self) -> dict[str, Any]:
        """Return {"root", "direction", "nodes", "edges", "datasets", "models", "sources"}; the last three are lists
        of the digests and URIs that occur, for scripts that only want those."""
        return {
            "root": self.root,
            "direction": self.direction,
            "nodes": list(self.nodes.values()),
            "edges": [{"from": source, "to": target, "port": port} for source, target, port in self.edges],
            "datasets": self._digests("Dataset"),
            "models": self._digests("Model"),
            "sources": sorted(node["uri"] for node in self.of_kind("source")),
        }

    def _digests(self, type: str) -> list[str]:
        return sorted({node["digest"] for node in self.of_kind("artifact") if node["type"] == type})


def ancestors(store: Store, reference: str) -> Graph:
    """Return which data, code, parents and parameters made an artifact, back to the imported data.

    `reference` is a digest or a unique prefix of one, "run:stage.port", or a registered model: "name",
    "name@alias" or "name/version". Raises UnknownName or InputError for anything else.
    """
    ledger = Ledger(store)
    start = resolve_reference(ledger, reference)
    return _Backward(ledger).walk(start)


def descendants(store: Store, *references: str) -> Graph:
    """Return everything that was made from artifacts, in any run, from the last one's point of view.

    References are as for `ancestors`.
    """
    ledger = Ledger(store)
    forward = _Forward(ledger)
    return [forward.walk(resolve_reference(ledger, reference)) for reference in references][-1]


class _Occurrences:
    """The artifacts of a graph: one node per stage that the bytes came from, since a stage may pass on its input."""

    def __init__(self, ledger: Ledger, graph: Graph) -> None:
        self._ledger, self._graph = ledger, graph
        self._ids: dict[tuple[str, str | None], str] = {}

    def add(self, digest: str, place: Entry | None, type: str | None = None) -> str:
        """Return the node of an artifact from a stage; the digest is the id of its first node."""
        key = digest, stage_id(place) if place else None
        if key not in self._ids:
            where = f"{place['run_id']}/{place['stage']}" if place else "outside"
            node = _artifact(self._ledger, digest, type)
            self._ids[key] = self._graph.add(
                node if digest not in self._graph.nodes else node | {"id": f"{digest}@{where}"}
            )
        return self._ids[key]


class _Backward:
    """Traverses from an artifact to its origins, staying in the run that it was named in where possible."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._graph = Graph("", ANCESTORS)
        self._producers = Producers(ledger)
        self._artifacts = _Occurrences(ledger, self._graph)

    def walk(self, start: Reference) -> Graph:
        """Return the graph of all ancestors of `start`."""
        graph = self._graph
        if start.run_id:
            gather_run(self._ledger, start.run_id)
        maker = self._producers.named(start.digest, start.run_id, start.stage)
        graph.root = first = self._artifacts.add(start.digest, maker)
        if start.registered:
            version = graph.add(_registered(self._ledger, start.registered))
            graph.connect(graph.root, version)
            graph.root = version
        queue = deque([(first, start.digest, maker)])
        done: set[str] = set()
        while queue:
            artifact, digest, maker = queue.popleft()
            if maker is None:
                continue
            gather_run(self._ledger, maker["run_id"])
            node = graph.add(_stage(self._ledger, maker))
            for port in made(maker)[digest]:
                graph.connect(node, artifact, port)
            if node not in done:
                done.add(node)
                queue.extend(self._add_inputs(node, maker))
        return graph

    def _add_inputs(self, node: str, entry: Entry) -> Iterator[tuple[str, str, Entry | None]]:
        """Add the inputs of a stage; yield each as (node, digest, maker) to continue from."""
        for port, items in entry["inputs"].items():
            for item in items:
                maker = self._producers.of_input(entry, item)
                used = self._artifacts.add(item["digest"], maker, item["type"])
                self._graph.connect(used, node, port)
                if self._producers.upstream(entry, item) is None:
                    self._graph.connect(self._graph.add(_source(item["source"])), used)
                yield used, item["digest"], maker


class _Forward:
    """Traverses from an artifact to everything made from it, in every run."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._graph = Graph("", DESCENDANTS)
        self._producers = Producers(ledger)
        self._artifacts = _Occurrences(ledger, self._graph)
        self._naming = cache(Mentions(ledger).entries)
        self._is_handed_on = cache(self._anyone_hands_on)
        self._versions = _registered_by_digest(ledger)

    def walk(self, start: Reference) -> Graph:
        """Return the graph of everything that was made from `start`."""
        graph = self._graph
        place = self._place(start.digest, self._producers.named(start.digest, start.run_id, start.stage))
        graph.root = self._artifacts.add(start.digest, place)
        queue, done = deque([(graph.root, start.digest, place)]), {graph.root}
        while queue:
            artifact, digest, place = queue.popleft()
            self._add_versions(artifact, digest, place)
            gather_entries(self._ledger, self._naming(digest))
            for entry in self._naming(digest):
                ports = [port for port, items in entry["inputs"].items() if self._takes(entry, items, digest, place)]
                if not ports:
                    continue
                entry = self._producers.origin(entry)
                node = graph.add(_stage(self._ledger, entry))
                for port in ports:
                    graph.connect(artifact, node, port)
                for output, made_at in made(entry).items():
                    giver = self._place(output, entry)
                    target = self._artifacts.add(output, giver)
                    for port in made_at:
                        graph.connect(node, target, port)
                    if target not in done:
                        done.add(target)
                        queue.append((target, output, giver))
        return graph

    def _anyone_hands_on(self, digest: str) -> bool:
        return any(digest in handed_on(entry) for entry in self._naming(digest))

    def _place(self, digest: str, maker: Entry | None) -> Entry | None:
        """Return the stage if it passed the artifact on, else None: all makers of the same bytes share one node."""
        return maker if maker and digest in handed_on(maker) else None

    def _takes(self, entry: Entry, items: list[dict[str, Any]], digest: str, place: Entry | None) -> bool:
        """Return whether one of a port's inputs is the artifact that came from `place`."""
        found = [item for item in items if item["digest"] == digest]
        if not found or not self._is_handed_on(digest):
            return bool(found)
        places = [self._place(digest, self._producers.of_input(entry, item)) for item in found]
        return _place_id(place) in map(_place_id, places)

    def _add_versions(self, artifact: str, digest: str, place: Entry | None) -> None:
        for record in self._versions.get(digest, ()):
            maker = self._producers.named(digest, record["run_id"], record["stage"])
            if _place_id(self._place(digest, maker)) == _place_id(place):
                self._graph.connect(artifact, self._graph.add(_registered(self._ledger, record)))


def _place_id(place: Entry | None) -> str | None:
    return stage_id(place) if place else None


def _artifact(ledger: Ledger, digest: str, type: str | None = None) -> Node:
    """Return an artifact's node; one that was removed from the store stays in the graph."""
    node: Node = {"id": digest, "kind": "artifact", "type": type, "digest": digest, "stored": False}
    manifest = ledger.manifest(digest)
    if isinstance(manifest, InputError):
        return node
    if isinstance(manifest, PosttrainError):
        raise manifest
    stored = {"type": str(manifest.type), "stored": True, "uri": ledger.store.artifact_uri(digest)}
    return node | stored | {"size": manifest.size, "metadata": manifest.metadata}


def _stage(ledger: Ledger, entry: Entry) -> Node:
    mark = entry["fingerprint"]
    action = ledger.action(mark) if mark else None
    code, params = dict(entry["code"]), entry["params"]
    if action:
        code["files"], params = action["parts"]["code"], action["parts"]["params"]
    kept = ("stage", "component", "fingerprint", "run_id", "recipe", "seed", "labels", "started", "seconds")
    return {
        "id": stage_id(entry),
        "kind": "stage",
        **{name: entry[name] for name in kept},
        "params": params,
        "given_params": entry["params"],
        "metrics": entry["metrics"],
        "code": code,
    }


def _source(uri: str) -> Node:
    return {"id": f"source:{uri}", "kind": "source", "uri": uri}


def _registered(ledger: Ledger, record: dict[str, Any]) -> Node:
    pointing = sorted(
        alias for alias, version in aliases_of(ledger.store, record["name"]).items() if version == record["version"]
    )
    return {
        "id": f"registered:{record['name']}/{record['version']}",
        "kind": "registered",
        "name": record["name"],
        "version": record["version"],
        "aliases": pointing,
        "digest": record["digest"],
        "run_id": record["run_id"],
        "stage": record["stage"],
    }


def _registered_by_digest(ledger: Ledger) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    records: Iterable[dict[str, Any]] = (
        record for name in model_names(ledger.store) for record in versions(ledger.store, name)
    )
    for record in records:
        found.setdefault(record["digest"], []).append(record)
    return found
