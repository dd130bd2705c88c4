"""The lineage graph, read from the store alone: what made an artifact, and what was made of it.

Nodes are artifacts, the stages between them, registered versions, and the URIs where data came in from outside. Edges
point the way the data went. A stage that was reused from the cache appears once, as the work that really ran.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.runtime.lineage.ledger import Ledger
from components.runtime.lineage.references import Reference, resolve_reference
from components.runtime.lineage.registry import aliases_of, model_names, versions

if TYPE_CHECKING:
    from rich.tree import Tree

    from components.runtime.store import Store

ANCESTORS, DESCENDANTS = "ancestors", "descendants"
Node = dict[str, Any]
Entry = dict[str, Any]


@dataclass
class Graph:
    """A lineage graph; `nodes` by id, in the order in which they were reached from the root."""

    root: str
    direction: str
    nodes: dict[str, Node] = field(default_factory=dict)
    edges: dict[tuple[str, str, str], None] = field(default_factory=dict)
    """(from, to, port), each once."""

    def add(self, node: Node) -> str:
        """Add a node unless it is there, and return its id."""
        self.nodes.setdefault(node["id"], node)
        return node["id"]

    def connect(self, source: str, target: str, port: str = "") -> None:
        """Add an edge along which data went."""
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

    def tree(self) -> Tree:
        """Return the graph as a rich tree for a terminal."""
        from components.runtime.lineage.tree import lineage_tree

        return lineage_tree(self)

    def _digests(self, type: str) -> list[str]:
        return sorted(node["digest"] for node in self.of_kind("artifact") if node["type"] == type)


def ancestors(store: Store, reference: str) -> Graph:
    """Return which data, code, parents and parameters made an artifact, back to where data came in.

    `reference` is a digest or a unique beginning of one, "run:stage.port", or a registered model: "name",
    "name@alias" or "name/version". Raises UnknownName or InputError for anything else.
    """
    ledger = Ledger(store)
    start = resolve_reference(ledger, reference)
    return _Backward(ledger).walk(start)


def descendants(store: Store, reference: str) -> Graph:
    """Return everything that was made of an artifact, in any run; `reference` as for `ancestors`."""
    ledger = Ledger(store)
    start = resolve_reference(ledger, reference)
    return _forward(ledger, start)


class _Backward:
    """Walks from an artifact to what it was made of, staying in the run that it was named in where it can."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._graph = Graph("", ANCESTORS)

    def walk(self, start: Reference) -> Graph:
        """Return the graph of everything behind `start`."""
        graph = self._graph
        graph.root = graph.add(_artifact(self._ledger, start.digest))
        if start.registered:
            version = graph.add(_registered(self._ledger, start.registered))
            graph.connect(graph.root, version)
            graph.root = version
        queue = deque([(start.digest, start.run_id, start.stage)])
        done: set[str] = set()
        while queue:
            digest, run_id, stage = queue.popleft()
            if digest in done:
                continue
            done.add(digest)
            maker = self._maker(digest, run_id, stage)
            if maker:
                queue.extend(self._add_stage(digest, maker))
        return graph

    def _maker(self, digest: str, run_id: str | None, stage: str | None) -> Entry | None:
        """Return the ledger entry of the stage that made an artifact: of the named run, or else the first ever."""
        if run_id and stage:
            entry = self._ledger.stage(run_id, stage)
            if entry and digest in _made(entry):
                return _origin(self._ledger, entry)
        fingerprints = [
            key.rpartition("/")[2].removesuffix(".json") for key in self._ledger.store.keys(f"producers/{digest}/")
        ]
        actions = [action for mark in fingerprints if (action := self._ledger.action(mark))]
        entries = [self._ledger.stage(action["run_id"], action["stage"]) for action in actions]
        made = [entry for entry in entries if entry and digest in _made(entry)]
        return min(made, key=lambda entry: (entry["started"], entry["fingerprint"]), default=None)

    def _add_stage(self, digest: str, entry: Entry) -> Iterator[tuple[str, str | None, str | None]]:
        """Add the stage that made `digest` with its inputs; yield them as (digest, run, stage) to go on from."""
        graph = self._graph
        node = graph.add(_stage(self._ledger, entry))
        for port in _made(entry)[digest]:
            graph.connect(node, digest, port)
        planned = {stage["name"] for stage in self._ledger.run_entry(entry["run_id"]).get("stages", ())}
        for port, items in entry["inputs"].items():
            for item in items:
                used = graph.add(_artifact(self._ledger, item["digest"], item["type"]))
                graph.connect(used, node, port)
                upstream = item["source"].rpartition(".")[0]
                if upstream in planned:
                    yield item["digest"], entry["run_id"], upstream
                else:
                    source = graph.add(_source(item["source"]))
                    graph.connect(source, used)
                    yield item["digest"], None, None


def _forward(ledger: Ledger, start: Reference) -> Graph:
    graph = Graph("", DESCENDANTS)
    graph.root = graph.add(_artifact(ledger, start.digest))
    users: dict[str, list[Entry]] = {}
    for entry in sorted(ledger.stages(), key=lambda entry: (entry["started"], entry["run_id"], entry["stage"])):
        for digest in {item["digest"] for items in entry["inputs"].values() for item in items}:
            users.setdefault(digest, []).append(entry)
    registered = _registered_by_digest(ledger)
    queue, done = deque([start.digest]), {start.digest}
    while queue:
        digest = queue.popleft()
        for record in registered.get(digest, ()):
            graph.connect(digest, graph.add(_registered(ledger, record)))
        for entry in users.get(digest, ()):
            node = graph.add(_stage(ledger, _origin(ledger, entry)))
            for port, items in entry["inputs"].items():
                if any(item["digest"] == digest for item in items):
                    graph.connect(digest, node, port)
            for made, ports in _made(entry).items():
                graph.add(_artifact(ledger, made))
                for port in ports:
                    graph.connect(node, made, port)
                if made not in done:
                    done.add(made)
                    queue.append(made)
    return graph


def _origin(ledger: Ledger, entry: Entry) -> Entry:
    """Return the entry of the work that really ran: for a cache hit, that of the run whose work it reuses."""
    producer = entry.get("produced_by")
    found = ledger.stage(producer["run_id"], producer["stage"]) if producer else None
    return found if found and found["fingerprint"] == entry["fingerprint"] else entry


def _made(entry: Entry) -> dict[str, list[str]]:
    """Return digest -> output ports of a stage."""
    made: dict[str, list[str]] = {}
    for port, output in entry["outputs"].items():
        made.setdefault(output["digest"], []).append(port)
    return made


def _artifact(ledger: Ledger, digest: str, type: str | None = None) -> Node:
    """Return an artifact's node; one that was removed from the store keeps its place in the graph."""
    node: Node = {"id": digest, "kind": "artifact", "type": type, "digest": digest, "stored": False}
    try:
        manifest = ledger.store.manifest(digest)
    except InputError:
        return node
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
        "id": f"stage:{mark or entry['run_id'] + '/' + entry['stage']}",
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
