"""Reading the run ledger: what runs used, made and measured. What the CLI and the report stand on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError, UnknownName
from components.runtime.records import action_key

if TYPE_CHECKING:
    from components.runtime.store import Store

ROOT = "ledger"
READERS = 16
"""Records of a bucket that are read at once: each costs a round trip."""
RUNNING = "unfinished"
"""Status of a run without an end: it goes on, or its engine was killed."""


@dataclass(frozen=True)
class RunRecord:
    """One run of the ledger."""

    run_id: str
    entry: dict[str, Any]
    """run.json: what was asked for."""
    stages: dict[str, dict[str, Any]]
    """Stage -> ledger entry, for stages that ended, in the order of the recipe."""
    failures: dict[str, dict[str, Any]]
    """Stage -> last failure, for stages that have not ended well since."""
    end: dict[str, Any] | None
    """end.json, or None while the run has not ended."""

    @property
    def status(self) -> str:
        """Return succeeded, failed, stopped, waiting or unfinished."""
        return self.end["status"] if self.end else RUNNING

    @property
    def stage_names(self) -> list[str]:
        """Return all stages, ended or not: as planned, then any that the plan does not name."""
        planned = [stage["name"] for stage in self.entry.get("stages", ())]
        return planned + sorted((set(self.stages) | set(self.failures)) - set(planned))


class Ledger:
    """The ledger of a store; every record is read once at most, since none that is read here changes."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._records: dict[str, dict[str, Any] | None] = {}

    @cached_property
    def keys(self) -> list[str]:
        """Return the keys of all ledger records, listed once."""
        return list(self.store.keys(f"{ROOT}/"))

    @cached_property
    def run_ids(self) -> list[str]:
        """Return all runs, sorted by name."""
        return sorted({key.split("/")[1] for key in self.keys})

    def find_run(self, text: str) -> str:
        """Return the run with this id, or the only one that starts so; raise UnknownName or InputError otherwise."""
        if text in self.run_ids:
            return text
        found = [run_id for run_id in self.run_ids if run_id.startswith(text)]
        if len(found) > 1:
            raise InputError(f"run {text!r} means several: {', '.join(found[:10])}")
        if not text or not found:
            raise UnknownName("run", text, self.run_ids)
        return found[0]

    def run_entry(self, run_id: str) -> dict[str, Any]:
        """Return a run's run.json; empty if the run has none."""
        return self.record(f"{ROOT}/{run_id}/run.json") or {}

    def stage(self, run_id: str, stage: str) -> dict[str, Any] | None:
        """Return the ledger entry of a stage, or None if it has not ended."""
        return self.record(f"{ROOT}/{run_id}/stages/{stage}.json")

    def stages(self, run_ids: Iterable[str] | None = None) -> Iterator[dict[str, Any]]:
        """Yield the ledger entries of all stages that ended, of some runs or of all."""
        chosen = None if run_ids is None else set(run_ids)
        keys = [key for key in self.keys if "/stages/" in key and (chosen is None or key.split("/")[1] in chosen)]
        yield from self.read(keys).values()

    def action(self, fingerprint: str) -> dict[str, Any] | None:
        """Return what a fingerprint made, or None."""
        return self.record(action_key(fingerprint))

    def run(self, text: str) -> RunRecord:
        """Return everything that is on record of a run, given its id or a unique beginning of it."""
        run_id = self.find_run(text)
        records = self.read(key for key in self.keys if key.split("/")[1] == run_id)
        folder = f"{ROOT}/{run_id}"
        entry = records.get(f"{folder}/run.json", {})
        stages = {record["stage"]: record for key, record in records.items() if "/stages/" in key}
        failures = {record["stage"]: record for key, record in records.items() if "/failures/" in key}
        planned = [stage["name"] for stage in entry.get("stages", ())]
        order = {name: index for index, name in enumerate(planned)}
        return RunRecord(
            run_id,
            entry,
            dict(sorted(stages.items(), key=lambda item: (order.get(item[0], len(order)), item[0]))),
            {name: record for name, record in failures.items() if name not in stages},
            records.get(f"{folder}/end.json"),
        )

    def record(self, key: str) -> dict[str, Any] | None:
        """Return one record, or None."""
        if key not in self._records:
            self._records[key] = self.store.get(key)
        return self._records[key]

    def read(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return key -> record for records that exist, read side by side where each takes a round trip."""
        keys = list(keys)
        if "://" in self.store.uri:
            missing = [key for key in keys if key not in self._records]
            with ThreadPoolExecutor(READERS) as readers:
                self._records.update(zip(missing, readers.map(self.store.get, missing), strict=True))
        return {key: record for key in keys if (record := self.record(key)) is not None}


def load_run(store: Store, run_id_or_prefix: str) -> RunRecord:
    """Return a run by its id or a unique beginning of it; raise UnknownName with near misses."""
    return Ledger(store).run(run_id_or_prefix)


def list_runs(store: Store) -> list[dict[str, Any]]:
    """Return all runs, newest first: {run_id, recipe, status, started, seconds, engine, stages, ended_stages}."""
    ledger = Ledger(store)
    ended: dict[str, int] = {}
    for key in ledger.keys:
        if "/stages/" in key:
            ended[key.split("/")[1]] = ended.get(key.split("/")[1], 0) + 1
    records = ledger.read(key for key in ledger.keys if key.endswith(("/run.json", "/end.json")))
    runs = []
    for run_id in ledger.run_ids:
        entry = records.get(f"{ROOT}/{run_id}/run.json", {})
        end = records.get(f"{ROOT}/{run_id}/end.json")
        runs.append(
            {
                "run_id": run_id,
                "recipe": entry.get("recipe"),
                "status": end["status"] if end else RUNNING,
                "started": entry.get("started"),
                "seconds": end["seconds"] if end else None,
                "engine": entry.get("engine"),
                "stages": len(entry.get("stages", ())),
                "ended_stages": ended.get(run_id, 0),
            }
        )
    return sorted(runs, key=lambda run: (str(run["started"]), run["run_id"]), reverse=True)


def show_json(run: RunRecord) -> dict[str, Any]:
    """Return a run as scripts read it; a stage that has not ended is `pending`, or `failed` after its last try."""
    return {
        "run_id": run.run_id,
        "recipe": run.entry.get("recipe"),
        "status": run.status,
        "started": run.entry.get("started"),
        "seconds": run.end["seconds"] if run.end else None,
        "stages": [_show_stage(run, name) for name in run.stage_names],
    }


def _show_stage(run: RunRecord, name: str) -> dict[str, Any]:
    entry = run.stages.get(name)
    if entry is None:
        planned = {stage["name"]: stage.get("component") for stage in run.entry.get("stages", ())}
        failure = run.failures.get(name)
        return {
            "name": name,
            "component": planned.get(name),
            "status": "failed" if failure else "pending",
            "cache": "none",
            "fingerprint": failure["fingerprint"] if failure else None,
            "seconds": None,
            "metrics": {},
            "outputs": {},
        }
    outputs = {
        port: {"type": output["type"], "digest": output["digest"], "uri": output["uri"]}
        for port, output in entry["outputs"].items()
    }
    kept = ("component", "status", "cache", "fingerprint", "seconds", "metrics")
    return {"name": name, **{field: entry[field] for field in kept}, "outputs": outputs}
