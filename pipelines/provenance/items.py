"""The items of an evaluation: what was asked, and how often it was solved."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import ArtifactType
from components.contract.display import Role
from components.contract.errors import CorruptArtifact, InputError, UnknownName, did_you_mean
from components.contract.registry import components
from components.contract.samples import Sample
from components.runtime.ledger.samples import WRITTEN, stage_samples
from components.tasks.rows import iter_rows
from pipelines.provenance.nearest import Asked
from pipelines.runs.tables import stages_named

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import RunRecord
    from components.runtime.store import Store

RATES = "passrates.jsonl"
MEASURE = (Role.MEASURING, Role.CHOOSING)
MAX_KNOWN = 2000
"""Ids that a near miss is looked for among."""


@dataclass(frozen=True)
class Solved:
    """How often a prompt was solved in one stage."""

    prompt_id: str
    domain: str
    num_right: int
    num_wrong: int
    num_failed: int

    @property
    def rate(self) -> float:
        """Return right ones as a share of verified ones; NaN if none was verified."""
        verified = self.num_right + self.num_wrong
        return self.num_right / verified if verified else math.nan

    @property
    def words(self) -> str:
        """Return it for people: "2 of 8 right"."""
        failed = f", {self.num_failed} failed" if self.num_failed else ""
        return f"{self.num_right} of {self.num_right + self.num_wrong} right{failed}"


@dataclass(frozen=True)
class Measured:
    """An evaluation: its ledger entry, its items and their results."""

    entry: Mapping[str, Any]
    solved: dict[str, Solved]

    @property
    def place(self) -> str:
        """Return run and stage."""
        return f"{self.entry['run_id']}:{self.entry['stage']}"


def evaluations(store: Store, run: RunRecord, stage: str | None) -> list[Measured]:
    """Return the stages of a run that measured a model prompt by prompt, in the recipe's order.

    Raises UnknownName, with near misses, for an unknown stage, and InputError if there is none.
    """
    found = []
    for name in stages_named(run, stage):
        entry = run.stages.get(name)
        if entry is not None and role_of(entry) in MEASURE and (solved := rates_of(store, entry)):
            found.append(Measured(entry, solved))
    if not found:
        where = f"stage {stage!r} of run" if stage else "run"
        raise InputError(f"{where} {run.run_id} has no pass rates of prompts; name one that evaluates a model")
    return found


def role_of(entry: Mapping[str, Any]) -> Role:
    """Return what a stage is for; OTHER for a component that is not installed here."""
    try:
        role: Role = components().get(entry["component"]).role
        return role
    except UnknownName:
        return Role.OTHER


def rates_of(store: Store, entry: Mapping[str, Any]) -> dict[str, Solved]:
    """Return the pass rate of each prompt that a stage measured; empty if it kept none, or if they are gone."""
    found = {}
    for row in json_rows(store, entry, RATES):
        try:
            solved = Solved(str(row["prompt_id"]), str(row["domain"]), *_counts(row))
        except (KeyError, TypeError, ValueError):
            continue
        found[solved.prompt_id] = solved
    return found


def _counts(row: Mapping[str, Any]) -> tuple[int, int, int]:
    return int(row["num_right"]), int(row["num_wrong"]), int(row["num_failed"])


def json_rows(store: Store, entry: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file of a stage's measurements; none where it is not there, or no longer."""
    for output in entry["outputs"].values():
        if output["type"] != ArtifactType.METRICS or not store.has(output["digest"]):
            continue
        if any(file.path == name for file in store.manifest(output["digest"]).files):
            for line in store.read_file(output["digest"], name).splitlines():
                row = json.loads(line) if line.strip() else None
                if isinstance(row, dict):
                    yield row


def asked_in(store: Store, measured: Measured) -> Iterator[Asked]:
    """Yield the items that a stage asked."""
    for item in measured.entry["inputs"].get("dataset", ()):
        if store.has(item["digest"]):
            for _, row in iter_rows(store.fetch(item["digest"])):
                if row.get("id") in measured.solved:
                    fields = ("id", "domain", "prompt", "answer")
                    yield Asked(*(str(row.get(name, "")) for name in fields))


def find_item(store: Store, found: list[Measured], item_id: str) -> tuple[Measured, Asked]:
    """Return the last evaluation that asked an item, and the item; raise InputError with near misses if none did."""
    for measured in reversed(found):
        if item_id in measured.solved:
            item = next((item for item in asked_in(store, measured) if item.id == item_id), None)
            if item is not None:
                return measured, item
    known = list(dict.fromkeys(one for measured in found for one in measured.solved))
    near = did_you_mean(item_id, known[:MAX_KNOWN]).partition(" (known")[0]
    places = ", ".join(str(measured.entry["stage"]) for measured in found)
    raise InputError(
        f"no item {item_id[:80]!r} among the {len(known)} of {places}{near}; `posttrain trace RUN` lists items"
    )


def written_for(store: Store, measured: Measured, item_id: str) -> list[Sample]:
    """Return the responses to an item that an evaluation kept."""
    try:
        samples = stage_samples(store, measured.entry["outputs"], WRITTEN)
    except (CorruptArtifact, InputError):
        return []
    return [sample for sample in samples if sample.prompt_id == item_id]
