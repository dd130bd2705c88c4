"""Reading the run ledger: what runs used, made and measured. The basis of the CLI and the report."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import Manifest
from components.contract.errors import CorruptArtifact, InputError, PosttrainError, UnknownName
from components.runtime.ledger.approvals import stands
from components.runtime.ledger.records import action_key, approval_key, asked_key, failure_in, utc
from components.runtime.ledger.sequence import in_order

if TYPE_CHECKING:
    from components.runtime.store import Store

ROOT = "ledger"
UNREAD = ("jobs", "notices", "attempts")
"""Records of a run that say nothing of what it did."""
READERS = 32
"""Concurrent requests to a bucket: each costs a round trip."""
RUNNING = "unfinished"
"""Status of a run without an end: it is running, or its engine was killed."""
UNREADABLE = "unreadable"
"""Status of a run or a stage whose record is damaged."""


@dataclass(frozen=True)
class RunRecord:
    """One run of the ledger."""

    run_id: str
    entry: dict[str, Any]
    """run.json: what was requested."""
    stages: dict[str, dict[str, Any]]
    """Stage -> ledger entry, for stages that ended, in the order of the recipe."""
    failures: dict[str, dict[str, Any]]
    """Stage -> last failure, for stages that have not succeeded since."""
    end: dict[str, Any] | None
    """end.json, or None while the run has not ended."""
    damaged: dict[str, str] = field(default_factory=dict)
    """Stage -> what is wrong with its record; "" stands for the run itself."""
    approvals: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Stage -> {"message", "asked", "approved", "by", "decided"}, the fields that are known so far; times are
    ISO 8601."""
    alarms: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Stage -> the alarms that it raised, in their order."""
    kept: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)
    """Stage that an alarm ended -> port -> what was kept to look at it: its history and its samples."""

    @property
    def status(self) -> str:
        """Return succeeded, failed, stopped, waiting, unfinished, or unreadable if a record of the run is damaged."""
        if self.end:
            return self.end["status"]
        return UNREADABLE if "" in self.damaged else RUNNING

    @property
    def failed(self) -> dict[str, str]:
        """Return why stages failed, those too that the run went on without."""
        left_out = {name: error for name, entry in self.stages.items() if (error := failure_in(entry))}
        return {name: record["error"] for name, record in self.failures.items()} | left_out

    @property
    def planned(self) -> dict[str, dict[str, Any]]:
        """Return the planned stages by name, in recipe order."""
        return {stage["name"]: stage for stage in self.entry.get("stages", ())}

    @property
    def stage_names(self) -> list[str]:
        """Return all stages, ended or not: as planned, then any that the plan does not name."""
        planned = list(self.planned)
        return planned + sorted((set(self.stages) | set(self.failures) | set(self.damaged)) - {*planned, ""})


class Ledger:
    """The ledger of a store; every record is read at most once and then cached."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._records: dict[str, dict[str, Any] | None] = {}
        self._keys: dict[str, list[str]] = {}
        self._manifests: dict[str, Manifest | PosttrainError] = {}
        self.damaged: dict[str, CorruptArtifact] = {}
        """Key -> what is wrong with a record that was read."""

    @cached_property
    def run_ids(self) -> list[str]:
        """Return all runs, sorted by name."""
        return [name for name in self.store.names(f"{ROOT}/") if not name.endswith(".json")]

    @cached_property
    def newest(self) -> list[str]:
        """Return all runs, newest first."""
        return in_order(self.store, self.run_ids)[::-1]

    def find_run(self, text: str) -> str:
        """Return the run with this id or unique prefix; raise UnknownName or InputError otherwise."""
        found = self._runs_beginning(text)
        if text in found:
            return text
        if len(found) > 1:
            raise InputError(f"run {text!r} is ambiguous: {', '.join(found[:10])}")
        if not found:
            raise UnknownName("run", text, self.run_ids)
        return found[0]

    def _runs_beginning(self, text: str) -> list[str]:
        if not text or "/" in text:
            return []
        return [name for name in self.store.names(f"{ROOT}/{text}") if not name.endswith(".json")]

    def keys_of(self, run_id: str) -> list[str]:
        """Return the keys of a run's records, listed once, without those that say nothing of what it did."""
        if run_id not in self._keys:
            self._keys[run_id] = [
                key for key in self.store.keys(f"{ROOT}/{run_id}/") if key.split("/")[2] not in UNREAD
            ]
        return self._keys[run_id]

    def run_entry(self, run_id: str) -> dict[str, Any]:
        """Return a run's run.json; empty if the run has none."""
        return self.record(f"{ROOT}/{run_id}/run.json") or {}

    def stage(self, run_id: str, stage: str) -> dict[str, Any] | None:
        """Return the ledger entry of a stage, or None if it has not ended."""
        return self.record(f"{ROOT}/{run_id}/stages/{stage}.json")

    def action(self, fingerprint: str) -> dict[str, Any] | None:
        """Return the action of a fingerprint, or None."""
        return self.record(action_key(fingerprint))

    def manifest(self, digest: str) -> Manifest | PosttrainError:
        """Return an artifact's manifest, read once, or the error that prevents it."""
        if digest not in self._manifests:
            try:
                self._manifests[digest] = self.store.manifest(digest)
            except (InputError, CorruptArtifact) as error:
                self._manifests[digest] = error
        return self._manifests[digest]

    def run(self, text: str) -> RunRecord:
        """Return all records of a run, given its id or a unique prefix of it.

        Damaged records are left out and named.
        """
        run_id = self.find_run(text)
        records = self.read(self.keys_of(run_id))
        folder = f"{ROOT}/{run_id}"
        entry = records.get(f"{folder}/run.json", {})
        stages = {record["stage"]: record for key, record in records.items() if "/stages/" in key}
        failures = {record["stage"]: record for key, record in records.items() if "/failures/" in key}
        raised = [record for key, record in records.items() if key.startswith(f"{folder}/alarms/")]
        damaged = {key: str(error) for key, error in self.damaged.items() if key.startswith(f"{folder}/")}
        planned = [stage["name"] for stage in entry.get("stages", ())]
        order = {name: index for index, name in enumerate(planned)}
        return RunRecord(
            run_id,
            entry,
            dict(sorted(stages.items(), key=lambda item: (order.get(item[0], len(order)), item[0]))),
            {name: record for name, record in failures.items() if name not in stages},
            records.get(f"{folder}/end.json"),
            {_stage_of(key): text for key, text in damaged.items()},
            self._approvals(run_id, entry),
            {record["stage"]: record["alarms"] for record in raised if record["alarms"]},
            {
                record["stage"]: record["kept"]
                for record in raised
                if record["kept"] and (record["stage"] not in stages or failure_in(stages[record["stage"]]))
            },
        )

    def _approvals(self, run_id: str, entry: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return approval requests and decisions; only stages that need approval have such records."""
        found: dict[str, dict[str, Any]] = {}
        for name in (stage["name"] for stage in entry.get("stages", ()) if stage.get("needs_approval")):
            asked, decision = asked_key(run_id, name), approval_key(run_id, name)
            records = self.read([asked, decision])
            told = records.get(asked, {})
            found[name] = {"message": told.get("message"), "asked": utc(told["time"])} if told else {}
            about = told
            if (given := records.get(decision)) and stands(told or None, given):
                decided = {"approved": given["approved"], "by": given["by"], "decided": utc(given["time"])}
                found[name] |= decided | {"engine": given.get("engine")}
                about = given
            found[name] |= {part: about[part] for part in ("inputs", "seen") if about.get(part)}
        return found

    def record(self, key: str) -> dict[str, Any] | None:
        """Return one record, or None; raise CorruptArtifact if it is damaged."""
        record = self._read(key)
        if key in self.damaged:
            raise self.damaged[key]
        return record

    def read(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return key -> record for records that exist, read in parallel if each takes a round trip.

        Damaged ones are left out and added to `damaged`.
        """
        keys = list(keys)
        new = [key for key in keys if key not in self._records]
        if "://" in self.store.uri and len(new) > 1:
            with ThreadPoolExecutor(READERS) as readers:
                list(readers.map(self._read, new))
        return {key: record for key in keys if (record := self._read(key)) is not None}

    def _read(self, key: str) -> dict[str, Any] | None:
        if key not in self._records:
            try:
                self._records[key] = self.store.get(key)
            except CorruptArtifact as error:
                self._records[key], self.damaged[key] = None, error
        return self._records[key]


def _stage_of(key: str) -> str:
    """Return the stage of a ledger record's key, or "" for a record of the run itself."""
    parts = key.split("/")
    return parts[3].removesuffix(".json") if len(parts) > 3 else ""


def load_run(store: Store, run_id_or_prefix: str) -> RunRecord:
    """Return a run by its id or a unique prefix of it; raise UnknownName with near misses."""
    return Ledger(store).run(run_id_or_prefix)
