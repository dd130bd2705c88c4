"""The stage that made a model: the one behind those that only handed it on, such as select and adopt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from components.contract.artifacts import ArtifactType
from components.contract.errors import PosttrainError
from components.runtime.lineage.graph.graph import Graph

if TYPE_CHECKING:
    from components.runtime.store import Store

HOLD_MODELS = (ArtifactType.MODEL, ArtifactType.CHECKPOINTS)
Files = Mapping[str, str]
"""Path -> SHA-256."""


def maker_of(store: Store, graph: Graph, digest: str) -> str | None:
    """Return the id of the stage that made a model, given the graph of its ancestors; None if none is known.

    A stage hands a model on if one of its inputs is a model with the same files, or checkpoints that hold them in a
    folder. So what it did is looked at, and not its name.
    """
    model = next((node["id"] for node in graph.of_kind("artifact") if node["digest"] == digest), None)
    makers: dict[str, None] = {}
    while model is not None:
        before = [source for source, target, _ in graph.edges if target == model]
        stage = next((id for id in before if graph.nodes[id]["kind"] == "stage"), None)
        if stage is None or stage in makers:
            break
        makers[stage] = None
        wanted = _files(store, graph, model)
        taken = [source for source, target, _ in graph.edges if target == stage]
        model = next((id for id in taken if wanted and _holds(_files(store, graph, id), wanted)), None)
    return next(reversed(makers), None)


def _files(store: Store, graph: Graph, id: str) -> Files:
    """Return the files of an artifact that holds models; empty for all others, and for one that is gone."""
    node = graph.nodes[id]
    if node["kind"] != "artifact" or node["type"] not in HOLD_MODELS:
        return {}
    try:
        return {entry.path: entry.sha256 for entry in store.manifest(node["digest"]).files}
    except PosttrainError:
        return {}


def _holds(files: Files, wanted: Files) -> bool:
    """Return whether the wanted files lie together, at the top or in one folder."""
    first, digest = next(iter(wanted.items()))
    folders = [path.removesuffix(first) for path, found in files.items() if path.endswith(first) and found == digest]
    return any(all(files.get(folder + path) == found for path, found in wanted.items()) for folder in folders)
