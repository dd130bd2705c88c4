"""Where a model comes from, for its card: stages, data, base model. No paths, addresses or parameters, only names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import ArtifactType
from components.runtime.ledger.ledger import Ledger
from components.runtime.lineage.graph.graph import Graph, ancestors
from components.tasks.published.catalogue import PUBLISHED
from pipelines.models.maker import maker_of
from pipelines.provenance.terms import stated_license
from pipelines.recipe.sources import named_sources

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.models.find import FoundModel

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
"""A name on the Hugging Face hub."""


@dataclass(frozen=True)
class Origin:
    """The stages that led to a model, oldest first, and what they started from."""

    stages: tuple[Mapping[str, Any], ...] = ()
    """Nodes of the lineage graph."""
    data: tuple[str, ...] = ()
    """Digests of the datasets."""
    models: tuple[str, ...] = ()
    """Digests of the models before it, the nearest first."""
    base: str | None = None
    """Name on the hub of the model that it was trained from."""
    base_digest: str | None = None
    """Digest of the imported model that it was trained from."""
    base_license: str | None = None
    datasets: tuple[str, ...] = ()
    """Names on the hub of datasets that were read."""
    sources: tuple[tuple[str, str, str], ...] = ()
    """The data that its ancestors read from outside: name, licence and revision; empty texts where none is stated."""
    given: tuple[str, ...] = ()
    """Digests of the inputs `model` of the stage that made it."""
    run: Mapping[str, Any] = field(default_factory=dict)
    """The ledger's record of the run."""
    run_id: str | None = None
    made_by: str | None = None
    """Id of the stage that made the model, in the lineage graph."""

    @property
    def maker(self) -> Mapping[str, Any]:
        """Return the stage that made the model, before those that handed it on unchanged; empty if it is not known."""
        last = self.stages[-1] if self.stages else {}
        return next((stage for stage in self.stages if stage.get("id") == self.made_by), last)


def origin_of(store: Store, model: FoundModel) -> Origin:
    """Return where a model comes from, as far as the store knows."""
    if model.digest is None:
        return Origin()
    graph = ancestors(store, model.reference or model.digest)
    stages = sorted(graph.of_kind("stage"), key=lambda node: str(node["started"]))
    run_id = model.run_id or (stages[-1]["run_id"] if stages else None)
    imported = dict(_imported(graph))
    names = [name for uri in imported if (name := _hub_name(uri))]
    base_digest = next(iter(imported.values()), None)
    made_by = maker_of(store, graph, model.digest)
    return Origin(
        stages=tuple(stages),
        data=_digests(graph, ArtifactType.DATASET),
        models=tuple(digest for digest in _digests(graph, ArtifactType.MODEL) if digest != model.digest),
        base=names[0] if names else None,
        base_digest=base_digest,
        base_license=stated_license(store, base_digest) if base_digest else None,
        datasets=tuple(dict.fromkeys(name for node in stages for name in _hub_datasets(node["params"]))),
        sources=tuple(dict.fromkeys(_sources(graph, stages))),
        given=_given(graph, made_by) if made_by else (),
        run=Ledger(store).run_entry(run_id) if run_id else {},
        run_id=run_id,
        made_by=made_by,
    )


def trained_from(origin: Origin) -> str | None:
    """Return the digest of the model that its maker trained; None if it made its model anew."""
    return next((digest for digest in origin.given if digest in origin.models), None)


def _digests(graph: Graph, type: ArtifactType) -> tuple[str, ...]:
    return tuple(dict.fromkeys(node["digest"] for node in graph.of_kind("artifact") if node["type"] == type))


def _given(graph: Graph, stage: str) -> tuple[str, ...]:
    found = (graph.nodes[source] for source, target, port in graph.edges if target == stage and port == "model")
    return tuple(node["digest"] for node in found)


def _imported(graph: Graph) -> Iterator[tuple[str, str]]:
    """Yield (URI, digest) of the models that came from outside."""
    nodes = graph.nodes
    for source, target, _ in graph.edges:
        if nodes[source]["kind"] == "source" and nodes[target].get("type") == ArtifactType.MODEL:
            yield nodes[source]["uri"], nodes[target]["digest"]


def _hub_name(uri: str) -> str | None:
    scheme, _, rest = uri.partition(":")
    name = rest.strip("/")
    return name if scheme == "hf" and HUB_NAME.fullmatch(name) else None


def _sources(graph: Graph, stages: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, str]]:
    """Yield the data that stages read, by name: paths are left out."""
    read: dict[str, str] = {}
    for node in graph.of_kind("artifact"):
        for one in node.get("metadata", {}).get("sources", []) if node["type"] == ArtifactType.DATASET else []:
            read |= {str(one["name"]): str(one["revision"])} if one.get("name") and one.get("revision") else {}
    for stage in stages:
        for source in named_sources(stage["params"]):
            if source.is_data:
                name = source.label.rpartition("/")[2] if "://" in source.label else source.label
                yield name, source.license or "", read.get(source.label) or source.revision or ""


def _hub_datasets(params: Any) -> Iterator[str]:
    """Yield the names on the hub that sources `hf` and `published` name, at any depth; local files are left out."""
    if isinstance(params, Mapping):
        config = params.get("config", params)
        name = config.get("dataset") if isinstance(config, Mapping) else None
        if params.get("name") == "hf" and isinstance(name, str) and HUB_NAME.fullmatch(name):
            yield name
        if params.get("name") == "published" and isinstance(config, Mapping) and not config.get("path"):
            known = PUBLISHED.get(str(config.get("set")))
            yield from [known.hub] if known else []
        params = list(params.values())
    if isinstance(params, Sequence) and not isinstance(params, str):
        for value in params:
            yield from _hub_datasets(value)
