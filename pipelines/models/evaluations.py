"""What measuring stages found about a model, with intervals, for its card."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import METRICS_FILE, ArtifactType
from components.contract.display import in_places
from components.contract.errors import CorruptArtifact, InputError
from components.runtime.ledger.ledger import Ledger
from pipelines.report.collect import declared

if TYPE_CHECKING:
    from components.runtime.store import Store


@dataclass(frozen=True)
class Measured:
    """One compared metric of one evaluation of the model."""

    stage: str
    name: str
    """Display name, such as "pass@1"."""
    metric: str
    """The metric's own name, such as "pass_at_1_sums"."""
    place: str
    """What fills the metric's place, such as the domain; "" without one."""
    value: float
    low: float | None
    high: float | None
    count: int | None
    """What the interval is over: prompts, say."""
    over: str
    share: bool
    dataset: str | None
    """Digest of the rows that it was measured on."""


def measurements(store: Store, run_id: str | None, digest: str | None) -> list[Measured]:
    """Return what the stages of a run measured of the model with this digest, in the order of the recipe."""
    if run_id is None or digest is None:
        return []
    return [found for entry in Ledger(store).run(run_id).stages.values() for found in _of_stage(store, entry, digest)]


def _of_stage(store: Store, entry: dict[str, Any], digest: str) -> Iterator[Measured]:
    component = declared(entry["component"])
    if component is None or component.results is None:
        return
    results = component.results
    if digest not in (item["digest"] for item in entry["inputs"].get(results.subject, ())):
        return
    rows = [
        item["digest"] for items in entry["inputs"].values() for item in items if item["type"] == ArtifactType.DATASET
    ]
    metrics = _metrics(store, entry)
    for metric, place in in_places(results.metric, metrics).items():
        found = metrics[metric]
        yield Measured(
            stage=entry["stage"],
            name=results.name,
            metric=metric,
            place=place,
            value=float(found["value"]),
            low=found.get("low"),
            high=found.get("high"),
            count=found.get("n"),
            over=results.over,
            share=results.share,
            dataset=rows[0] if len(rows) == 1 else None,
        )


def _metrics(store: Store, entry: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the metrics of a stage with their intervals; its headline where its output cannot be read."""
    for output in entry["outputs"].values():
        if output["type"] != ArtifactType.METRICS:
            continue
        try:
            if any(file.path == METRICS_FILE for file in store.manifest(output["digest"]).files):
                found: dict[str, dict[str, Any]] = json.loads(store.read_file(output["digest"], METRICS_FILE))
                return found
        except (CorruptArtifact, InputError):
            break
    return {name: {"value": value} for name, value in entry["metrics"].items()}
