"""From a source to all that it touched: rows, models, measurements, registered versions and exports, in any run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import ArtifactType
from components.contract.headlines import in_order
from components.runtime.ledger.ledger import Ledger
from components.runtime.lineage.graph.graph import Graph, descendants
from pipelines.provenance.exports import exports_of
from pipelines.provenance.statements import rebuilds_without
from pipelines.provenance.uses import Use, uses_of

if TYPE_CHECKING:
    from components.runtime.store import Store


@dataclass(frozen=True)
class Touched:
    """What a source touched."""

    name: str
    uses: list[Use]
    stages: list[dict[str, Any]] = field(default_factory=list)
    """{"run", "stage", "component", "seed", "metrics"}: each work that depends on it, those that read it included."""
    models: list[dict[str, Any]] = field(default_factory=list)
    """{"run", "stage", "port", "digest", "registered", "stored"}."""
    others: dict[str, int] = field(default_factory=dict)
    """Type -> how many other artifacts."""
    exports: list[dict[str, Any]] = field(default_factory=list)
    rebuilds: list[dict[str, str]] = field(default_factory=list)
    """{"before", "after"}: runs that were made again without it."""
    makers: dict[str, str] = field(default_factory=dict)
    """Digest of every artifact that it reached -> run:stage that made it first, as far as that is known."""

    @property
    def digests(self) -> list[str]:
        """Return the digests of all artifacts that it reached."""
        return list(self.makers)

    def maker_of(self, digest: str) -> str:
        """Return run:stage of what made an artifact, or an empty text."""
        return self.makers.get(digest, "")

    @property
    def measured(self) -> list[dict[str, Any]]:
        """Return the stages with measurements."""
        return [stage for stage in self.stages if stage["metrics"]]

    def to_json(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            "source": self.name,
            "uses": [use.to_json() for use in self.uses],
            "stages": self.stages,
            "models": self.models,
            "artifacts": self.others,
            "exports": self.exports,
            "rebuilds": self.rebuilds,
        }


def touched_by(store: Store, name: str) -> Touched:
    """Return what the source that `name` means touched; raise InputError, with near misses, if no run read it."""
    ledger = Ledger(store)
    uses = uses_of(ledger, name)
    outputs = dict.fromkeys(
        f"{use.entry['run_id']}:{use.stage}.{port}" for use in uses for port in use.entry["outputs"]
    )
    graph = descendants(store, *outputs)
    models = list(_models(graph, uses))
    others: dict[str, int] = {}
    for node in graph.of_kind("artifact"):
        if node["type"] != ArtifactType.MODEL:
            others[str(node["type"])] = others.get(str(node["type"]), 0) + 1
    return Touched(
        name,
        uses,
        list(_stages(graph, uses)),
        models,
        dict(sorted(others.items())),
        exports_of(store, (model["digest"] for model in models)),
        rebuilds_without(store, {use.source.label for use in uses}),
        _makers(graph, uses),
    )


def _makers(graph: Graph, uses: list[Use]) -> dict[str, str]:
    found = {node["digest"]: "" for node in graph.of_kind("artifact")}
    for use in uses:
        found |= {output["digest"]: f"{use.entry['run_id']}:{use.stage}" for output in use.entry["outputs"].values()}
    for source, target, _ in graph.edges:
        before, after = graph.nodes[source], graph.nodes[target]
        if before["kind"] == "stage" and not found[after["digest"]]:
            found[after["digest"]] = f"{before['run_id']}:{before['stage']}"
    return found


def _stages(graph: Graph, uses: list[Use]) -> Iterator[dict[str, Any]]:
    first = {(use.entry["run_id"], use.stage): use.entry for use in uses}
    later = {(node["run_id"], node["stage"]): node for node in graph.of_kind("stage")}
    for (run_id, stage), one in sorted((first | later).items(), key=lambda item: str(item[1]["started"])):
        yield {
            "run": run_id,
            "stage": stage,
            "component": one["component"],
            "seed": one["seed"],
            "metrics": in_order(str(one["component"]), one["metrics"]),
        }


def _models(graph: Graph, uses: list[Use]) -> Iterator[dict[str, Any]]:
    made: dict[str, tuple[str, str, str]] = {}
    named: dict[str, list[str]] = {}
    for source, target, port in graph.edges:
        before, after = graph.nodes[source], graph.nodes[target]
        if before["kind"] == "stage":
            made.setdefault(target, (before["run_id"], before["stage"], port))
        if after["kind"] == "registered":
            aliases = "".join(f" @{alias}" for alias in after["aliases"])
            named.setdefault(source, []).append(f"{after['name']}/{after['version']}{aliases}")
    for use in uses:
        for port, output in use.entry["outputs"].items():
            made.setdefault(output["digest"], (use.entry["run_id"], use.stage, port))
    for node in graph.of_kind("artifact"):
        if node["type"] == ArtifactType.MODEL:
            run_id, stage, port = made.get(node["id"], ("", "", ""))
            where = {"run": run_id, "stage": stage, "port": port, "digest": node["digest"]}
            yield where | {"registered": named.get(node["id"], []), "stored": node["stored"]}
