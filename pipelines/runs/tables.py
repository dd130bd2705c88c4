"""Measurements of a run as rows: one for each metric of a stage, and one for each step of its history."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import HISTORY_FILE, METRICS_FILE, ArtifactType
from components.contract.errors import UnknownName
from components.contract.headlines import in_order

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import RunRecord
    from components.runtime.store import Store

INTERVAL = ("value", "low", "high", "n")
"""Fields of an entry of metrics.json."""


def stages_named(run: RunRecord, wanted: str | None) -> list[str]:
    """Return the stages that are called `wanted` or are of the group `wanted`, all of them for None.

    Raises UnknownName, with near misses, if there is none.
    """
    groups = {name: _about(run, name).get("group") or name for name in run.stage_names}
    names = [name for name, group in groups.items() if wanted in (None, name, group)]
    if not names and wanted is not None:
        raise UnknownName(f"stage of run {run.run_id}", wanted, dict.fromkeys([*groups, *groups.values()]))
    return names


def labels_of(run: RunRecord, stage: str) -> dict[str, Any]:
    """Return the labels of a stage's cell of the matrix; empty without one."""
    return _about(run, stage).get("labels") or {}


def metric_rows(store: Store, run: RunRecord, stage: str) -> Iterator[dict[str, Any]]:
    """Yield {"metric", "value"} of a stage that ended, with "low", "high" and "n" where known; the headlines first.

    Raises CorruptArtifact for a file that is damaged.
    """
    entry = run.stages.get(stage)
    if entry is None:
        return
    written: dict[str, dict[str, Any]] = {}
    for digest in _holding(store, run, stage, METRICS_FILE):
        written |= json.loads(store.read_file(digest, METRICS_FILE))
    headlines = in_order(entry["component"], entry["metrics"])
    known = {name: fields for name, fields in written.items() if isinstance(fields, dict) and "value" in fields}
    for name in [*headlines, *(name for name in known if name not in headlines)]:
        fields = {part: known[name][part] for part in INTERVAL if part in known[name]} if name in known else {}
        yield {"metric": name, **fields, "value": headlines.get(name, fields.get("value"))}


def history_rows(store: Store, run: RunRecord, stage: str) -> Iterator[dict[str, Any]]:
    """Yield what a stage logged at each of its steps; of a stage that an alarm ended, what was kept of it."""
    for digest in _holding(store, run, stage, HISTORY_FILE):
        for line in store.read_file(digest, HISTORY_FILE).splitlines():
            if line:
                yield json.loads(line)


def _holding(store: Store, run: RunRecord, stage: str, name: str) -> Iterator[str]:
    """Yield the digests of a stage's measurements that hold a file of this name."""
    entry = run.stages.get(stage)
    outputs: Mapping[str, Mapping[str, Any]] = entry["outputs"] if entry else run.kept.get(stage, {})
    for output in outputs.values():
        if output["type"] == ArtifactType.METRICS and any(
            file.path == name for file in store.manifest(output["digest"]).files
        ):
            yield output["digest"]


def _about(run: RunRecord, stage: str) -> Mapping[str, Any]:
    return run.planned.get(stage) or run.stages.get(stage) or {}
