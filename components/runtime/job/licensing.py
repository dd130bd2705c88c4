"""The licence gate of a job: what its sources and inputs state, once they have been read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import ArtifactType
from components.contract.context import Input
from components.contract.errors import GateFailed, PosttrainError
from components.contract.job import Job
from components.contract.licenses import LicenseGate
from components.runtime.lineage.graph.graph import ancestors
from components.runtime.lineage.graph.producers import IN_STORE

if TYPE_CHECKING:
    from components.runtime.store import Store

NAME = "licenses"
CARD, README, CONFIG = "card.json", "README.md", "config.json"
Read = Callable[[str], bytes | None]
"""Takes the name of a file; returns its bytes, or None if there is none."""


def pass_input_licenses(job: Job, inputs: Mapping[str, list[Input]], store: Store) -> dict[str, dict[str, Any]]:
    """Check what the inputs of a job state, and what is behind those that earlier runs made. Raises GateFailed."""
    return _pass(job, _inputs(job.licenses, inputs, store) if job.licenses else ())


def pass_source_licenses(job: Job, card: Read) -> dict[str, dict[str, Any]]:
    """Check what the sources of a job stated when they were read; `card` reads files of its dataset.

    Raises GateFailed.
    """
    return _pass(job, _sources(job.licenses, card) if job.licenses else ())


def _pass(job: Job, told: Iterable[str]) -> dict[str, dict[str, Any]]:
    if failures := list(dict.fromkeys(told)):
        raise GateFailed(f"stage {job.stage!r}: licence gate: {'; '.join(failures)}")
    return {NAME: {"success": True, "digest": None, "failures": []}} if job.licenses else {}


def of_folder(folder: Path) -> Read:
    """Return what reads a folder's files."""
    return lambda name: (folder / name).read_bytes() if (folder / name).is_file() else None


def of_artifact(store: Store, digest: str | None) -> Read:
    """Return what reads an artifact's files; of one that is gone, none."""

    def read(name: str) -> bytes | None:
        if digest is None or not store.has(digest):
            return None
        return store.read_file(digest, name) if any(one.path == name for one in store.manifest(digest).files) else None

    return read


def _sources(gate: LicenseGate, card: Read) -> Iterator[str]:
    """Yield why sources are refused that were asked about their licence only by reading them."""
    data = card(CARD)
    if data is None:  # a shard: the stage that joins the shards has the card
        return
    listed = json.loads(data).get("sources", [])
    for position, name in gate.open_sources.items():
        origin = listed[position].get("origin", {}) if position < len(listed) else {}
        if refused := gate.rule.refusal(f"source {name}", _as_list(origin.get("license"))):
            yield refused


def _inputs(gate: LicenseGate, inputs: Mapping[str, list[Input]], store: Store) -> Iterator[str]:
    for port, items in inputs.items():
        for item in items:
            if item.source.startswith(IN_STORE):
                yield from _reached(gate, port, item, store)
            elif ":" in item.source or "/" in item.source:  # a stage's output is called stage.port
                declared = gate.rule.of([item.source])
                stated = [declared] if declared else stated_licenses(of_artifact(store, item.digest))
                if refused := gate.rule.refusal(f"input {port} {item.source}", stated):
                    yield refused


def _reached(gate: LicenseGate, port: str, item: Input, store: Store) -> Iterator[str]:
    """Yield the refused licences behind an artifact that earlier runs made: they travel with it."""
    try:
        graph = ancestors(store, item.digest)
    except PosttrainError:  # nothing is known of it but itself
        return
    for node in graph.of_kind("artifact"):
        stated = node.get("metadata", {}).get("sources", []) if node["type"] == ArtifactType.DATASET else []
        for origin in stated:
            names = [str(origin[key]) for key in ("name", "hub") if origin.get(key)]
            declared = gate.rule.of(names)
            what = f"input {port} {item.source}: behind it, source {names[0] if names else '?'}"
            licenses = [declared] if declared else _as_list(origin.get("license"))
            if licenses and (refused := gate.rule.refusal(what, licenses)):
                yield refused
    for source, target, _ in graph.edges:
        if graph.nodes[source]["kind"] == "source" and graph.nodes[target].get("type") == ArtifactType.MODEL:
            uri = graph.nodes[source]["uri"]
            declared = gate.rule.of([uri])
            licenses = [declared] if declared else stated_licenses(of_artifact(store, graph.nodes[target]["digest"]))
            what = f"input {port} {item.source}: behind it, {uri}"
            if licenses and (refused := gate.rule.refusal(what, licenses)):
                yield refused


def stated_licenses(read: Read) -> list[str]:
    """Return the licences that a model or dataset folder states: in the head of its card, or in its config."""
    import yaml

    head = (read(README) or b"").decode(errors="replace").replace("\r\n", "\n")
    if head.startswith("---\n"):
        try:
            found = yaml.safe_load(head[4:].partition("\n---")[0])
        except yaml.YAMLError:
            found = None
        if isinstance(found, Mapping) and (stated := _as_list(found.get("license"))):
            return stated
    try:
        config = json.loads(read(CONFIG) or b"null")
    except (ValueError, RecursionError):
        return []
    return _as_list(config.get("license")) if isinstance(config, Mapping) else []


def _as_list(stated: Any) -> list[str]:
    listed = stated if isinstance(stated, list) else [stated]
    return [one for one in listed if isinstance(one, str) and one]
