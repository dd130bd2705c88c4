"""From items of an evaluation back to the rows that its model was trained on, to rollouts, and to the ledgers of RL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import ArtifactType
from components.contract.display import Role
from components.contract.errors import PosttrainError
from components.runtime.ledger.ledger import Ledger
from components.runtime.lineage.graph.graph import ancestors
from components.tasks.rows import iter_rows
from pipelines.provenance.items import Measured, Solved, json_rows, rates_of, role_of
from pipelines.provenance.nearest import Asked, Near, Nearest
from pipelines.provenance.rows import RowOrigin, RowOrigins

if TYPE_CHECKING:
    from components.runtime.store import Store

TRAIN = (Role.PRETRAINING, Role.TRAINING)
HELD_OUT = ("heldout", "validation", "against", "targets")
"""Inputs whose rows a training stage does not learn from."""
VISITS = "visits.jsonl"
TOLD_EVERY = 1000
"""Rows between two signs of progress."""
MODELS = (ArtifactType.MODEL, ArtifactType.CHECKPOINTS)
OnRows = Callable[[str, int], None]
"""Takes where rows are read, and how many so far."""


@dataclass(frozen=True)
class NearRow:
    """A row that is near to an item, where it was learned from, and where it came from."""

    stages: tuple[str, ...]
    """run:stage of those that learned from it."""
    port: str
    digest: str
    near: Near
    origin: RowOrigin


@dataclass(frozen=True)
class DomainLedger:
    """What an rl stage recorded of the prompts of an item's domain, and of the item itself."""

    stage: str
    num_prompts: int
    first_rate: float | None
    """Mean pass rate in the first tenth of the domain's visits."""
    last_rate: float | None
    """In the last tenth."""
    own: Solved | None
    """The item's, if it was trained on."""


@dataclass
class Trace:
    """What is behind an item."""

    item: Asked
    rows: list[NearRow] = field(default_factory=list)
    rollouts: list[NearRow] = field(default_factory=list)
    ledgers: list[DomainLedger] = field(default_factory=list)


@dataclass
class Behind:
    """What was read behind an evaluation."""

    traces: list[Trace]
    num_rows: int = 0
    num_rollouts: int = 0
    stages: list[str] = field(default_factory=list)
    """The stages that trained the model, the first ones first."""
    gone: list[str] = field(default_factory=list)
    """Artifacts that were removed, or cannot be read."""


@dataclass
class _Part:
    """An artifact that training stages learned from, or made while they trained."""

    entry: Mapping[str, Any]
    port: str
    item: Mapping[str, Any]
    is_own: bool
    stages: list[str] = field(default_factory=list)

    @property
    def is_rollouts(self) -> bool:
        return bool(self.item["type"] == ArtifactType.ROLLOUTS)

    def origin(self, origins: RowOrigins, near: Near) -> RowOrigin:
        if self.is_rollouts:
            return RowOrigin((str(self.entry["stage"]),))
        if self.is_own:
            return origins.made_by(self.entry, near.number, near.row)
        return origins.of(self.entry, self.item, near.number, near.row)


def trace_back(
    store: Store, measured: Measured, items: Sequence[Asked], on_rows: OnRows = lambda where, count: None
) -> Behind:
    """Return the nearest training rows and rollouts of each item, and the ledgers of its domain."""
    behind, origins = Behind([Trace(item) for item in items]), RowOrigins(store)
    parts: dict[str, _Part] = {}
    for entry in _trainings(store, measured):
        place = f"{entry['run_id']}:{entry['stage']}"
        behind.stages.append(place)
        for port, item, is_own in _artifacts(entry):
            parts.setdefault(item["digest"], _Part(entry, port, item, is_own)).stages.append(place)
        for trace in behind.traces:
            trace.ledgers += _ledger(store, entry, place, trace.item)
    for part in parts.values():
        nearest = _read(store, part, items, behind, on_rows)
        for trace in behind.traces:
            into = trace.rollouts if part.is_rollouts else trace.rows
            into += [
                NearRow(tuple(part.stages), part.port, part.item["digest"], near, part.origin(origins, near))
                for near in nearest.of(trace.item)
            ]
    for trace in behind.traces:
        for found in (trace.rows, trace.rollouts):
            found.sort(key=lambda one: one.near.rank[:2], reverse=True)
    return behind


def _trainings(store: Store, measured: Measured) -> list[Mapping[str, Any]]:
    """Return the entries of the stages that trained the measured models, in the order of their starts."""
    ledger, entry = Ledger(store), measured.entry
    found: dict[tuple[str, str], Mapping[str, Any]] = {}
    for items in entry["inputs"].values():
        for item in items:
            if item["type"] not in MODELS:
                continue
            stage, _, _ = item["source"].rpartition(".")
            made_here = ledger.stage(entry["run_id"], stage) if stage and "/" not in stage else None
            reference = f"{entry['run_id']}:{item['source']}" if made_here else item["digest"]
            for node in ancestors(store, reference).of_kind("stage"):
                worked = ledger.stage(node["run_id"], node["stage"])
                if worked is not None and role_of(worked) in TRAIN:
                    found[node["run_id"], node["stage"]] = worked
    return sorted(found.values(), key=lambda one: str(one["started"]))


def _artifacts(entry: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Yield (port, artifact, whether the stage made it) of what a training stage learned from."""
    for port, items in entry["inputs"].items():
        for item in items:
            if port not in HELD_OUT and item["type"] in (ArtifactType.DATASET, ArtifactType.ROLLOUTS):
                yield port, item, False
    for port, output in entry["outputs"].items():
        if output["type"] in (ArtifactType.DATASET, ArtifactType.ROLLOUTS):
            yield port, output, True


def _read(store: Store, part: _Part, items: Sequence[Asked], behind: Behind, on_rows: OnRows) -> Nearest:
    """Compare all rows of an artifact; one that is gone, or damaged, is named."""
    nearest, digest = Nearest(items), str(part.item["digest"])
    try:
        for _, row in iter_rows(store.fetch(digest)):
            nearest.take(row)
            if nearest.num_rows % TOLD_EVERY == 0:
                on_rows(part.stages[0], nearest.num_rows)
    except PosttrainError as error:
        behind.gone.append(f"{part.stages[0]}.{part.port}: {digest[:12]} cannot be read: {error}")
    if part.is_rollouts:
        behind.num_rollouts += nearest.num_rows
    else:
        behind.num_rows += nearest.num_rows
    return nearest


def _ledger(store: Store, entry: Mapping[str, Any], place: str, item: Asked) -> Iterator[DomainLedger]:
    visits = [row for row in json_rows(store, entry, VISITS) if row.get("domain") == item.domain]
    if not visits:
        return
    solved = rates_of(store, entry)
    prompts = {row.get("prompt_id") for row in visits}
    tenth = max(1, len(visits) // 10)
    yield DomainLedger(place, len(prompts), _rate(visits[:tenth]), _rate(visits[-tenth:]), solved.get(item.id))


def _rate(visits: Sequence[Mapping[str, Any]]) -> float | None:
    right = sum(int(row.get("num_right", 0)) for row in visits)
    verified = right + sum(int(row.get("num_wrong", 0)) for row in visits)
    return right / verified if verified else None
