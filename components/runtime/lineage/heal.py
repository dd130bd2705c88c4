"""Recovery of damaged records: rebuilt from copies elsewhere in the store, if there are any.

The ledger and the spool both hold a run's start and end, each stage's entry, and each registered version. An action is
rebuilt from its stage's ledger entry, and its parts are verified by the fingerprint that they hash to. A record without
a copy is set aside, and the next run rebuilds it or asks for it again.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import canonical_json
from components.contract.errors import CorruptArtifact
from components.runtime.ledger.records import action_key, end_key, run_key, stage_key, utc
from components.runtime.lineage.events import moment
from components.runtime.lineage.spool import NO_FINGERPRINT

if TYPE_CHECKING:
    from components.runtime.store import Store

Record = dict[str, Any]
Tell = Callable[[str], None]
logger = logging.getLogger(__name__)
NOT_IN_A_RECORD = ("kind", "time")


def read_or_heal(
    store: Store, key: str, tell: Tell = logger.warning, *, only_with_copies: bool = False
) -> Record | None:
    """Return a record, or None if there is none; a damaged one is set aside and rebuilt from its copies.

    With `only_with_copies`, a damaged record without copies is left in place and CorruptArtifact raised.
    """
    try:
        return store.get(key)
    except CorruptArtifact as error:
        if only_with_copies and rebuilt(store, key) is None:
            raise
        return heal(store, key, str(error).partition(": ")[2].partition(". ")[0], tell)


def read_or_copy(store: Store, key: str, tell: Tell = logger.warning) -> Record | None:
    """Return a record, or one rebuilt from copies if it is damaged, which is reported; nothing is written."""
    try:
        return store.get(key)
    except CorruptArtifact as error:
        tell(str(error))
        return rebuilt(store, key)


def heal(store: Store, key: str, reason: str, tell: Tell = logger.warning) -> Record | None:
    """Set a damaged record aside and rebuild it from its copies; None if there are none, and it stays missing."""
    store.set_aside(key, reason, tell)
    record = rebuilt(store, key)
    if record is not None:
        store.put(key, record, overwrite=True)
    return record


def rebuilt(store: Store, key: str) -> Record | None:
    """Return a record rebuilt from its copies, or None if no readable copy exists."""
    parts = key.removesuffix(".json").split("/")
    match parts:
        case ["ledger", run_id, "run"]:
            return _run(store, run_id)
        case ["ledger", run_id, "end"]:
            return _end(store, run_id)
        case ["ledger", run_id, "stages", stage]:
            return _stage(store, run_id, stage)
        case ["ledger", run_id, "failures", stage]:
            return _failure(store, run_id, stage)
        case ["actions", fingerprint]:
            return _action(store, fingerprint)
        case ["producers", digest, fingerprint]:
            return _producer(store, digest, fingerprint)
        case ["models", name, "aliases", alias]:
            return _alias(store, name, alias)
        case ["models", name, version]:
            return _version(store, name, int(version))
        case ["plans", plan_digest]:
            return _plan(store, plan_digest)
        case ["spool", run_id, *rest]:
            return _event(store, run_id, rest)
    return None


def _read(store: Store, key: str) -> Record | None:
    """Return a record that serves as a copy; None if it is damaged."""
    try:
        return store.get(key)
    except CorruptArtifact:
        return None


def _all(store: Store, prefix: str, ending: str = "") -> Iterator[tuple[str, Record]]:
    """Yield the readable records with a prefix, newest key first."""
    for key in sorted(store.keys(prefix), reverse=True):
        if key.endswith(ending) and (record := _read(store, key)):
            yield key, record


def _run(store: Store, run_id: str) -> Record | None:
    event = _read(store, f"spool/{run_id}/run-started.json")
    if event is None:
        return None
    record = {name: value for name, value in event.items() if name not in NOT_IN_A_RECORD}
    return record | {"started": _utc(event["time"])}


def _end(store: Store, run_id: str) -> Record | None:
    for _, event in _all(store, f"spool/{run_id}/turns/"):
        if event["kind"] == "run_resumed":
            return None  # the run continues
        return {"status": event["status"], "ended": _utc(event["time"]), "seconds": event["seconds"]}
    return None


def _stage(store: Store, run_id: str, stage: str) -> Record | None:
    run = _read(store, run_key(run_id)) or {}
    for _, event in _all(store, f"spool/{run_id}/stages/{stage}/", "/finished.json"):
        record = {name: value for name, value in event.items() if name not in NOT_IN_A_RECORD}
        record |= {"recipe": run.get("recipe", ""), "started": _utc(event["started"]), "ended": _utc(event["time"])}
        for later in ("produced_by", "machine"):
            if not record.get(later):
                record.pop(later, None)
        return record
    return None


def _failure(store: Store, run_id: str, stage: str) -> Record | None:
    found = [event for _, event in _all(store, f"spool/{run_id}/stages/{stage}/") if event["kind"] == "stage_failed"]
    if not found:
        return None
    event = max(found, key=lambda event: event["time"])
    kept = {name: event[name] for name in ("run_id", "stage", "fingerprint", "error")}
    return kept | {"time": moment(event["time"]).timestamp()}


def _action(store: Store, fingerprint: str) -> Record | None:
    """Return an action from the ledger entry of the stage that made it; its parts must hash to its fingerprint."""
    for key in store.keys("spool/"):
        if not key.endswith(f"/{fingerprint}/started.json"):
            continue
        _, run_id, _, stage, *_ = key.split("/")
        entry, event = _read(store, stage_key(run_id, stage)) or _stage(store, run_id, stage), _read(store, key)
        if not entry or not event or entry["fingerprint"] != fingerprint or entry["cache"] != "miss":
            continue
        if parts := _parts(event, fingerprint):
            names = ("component", "outputs", "metrics", "gates", "seconds", "machine")
            kept = {name: entry[name] for name in names if name in entry}
            made = {"run_id": run_id, "stage": stage, "expect": []}  # its alarms are judged anew from its history
            return {"fingerprint": fingerprint, "parts": parts, **kept, **made}
    return None


def _parts(event: Record, fingerprint: str) -> Record | None:
    """Return the parts of a fingerprint from its stage's start event, if they hash to it."""
    from components.runtime.ledger.fingerprint import EPOCH

    inputs = {port: [item["digest"] for item in items] for port, items in sorted(event["inputs"].items())}
    plain = {name: event[name] for name in ("component", "params", "seed")}
    parts = {"epoch": EPOCH, **plain, "inputs": inputs, "code": event["code"]["files"], **event["also_counted"]}
    return parts if hashlib.sha256(canonical_json(parts)).hexdigest() == fingerprint else None


def _producer(store: Store, digest: str, fingerprint: str) -> Record | None:
    action = _read(store, action_key(fingerprint)) or {"outputs": {}}
    ports = [port for port, output in action["outputs"].items() if output["digest"] == digest]
    return {"fingerprint": fingerprint, "port": ports[0]} if ports else None


def _version(store: Store, name: str, version: int) -> Record | None:
    for key in store.keys("spool/"):
        if key.endswith(f"/models/{name}/{version:06d}.json") and (event := _read(store, key)):
            kept = ("name", "version", "digest", "run_id", "stage", "metrics", "aliases")
            return {field: event[field] for field in kept} | {"registered": moment(event["time"]).timestamp()}
    return None


def _alias(store: Store, name: str, alias: str) -> Record | None:
    """Return an alias's target: the newest version that requested it, at registration or later."""
    asked = [record for _, record in _all(store, f"models/{name}/") if alias in record.get("aliases", ())]
    told = (key for key in store.keys("spool/") if f"/models/{name}/" in key)
    asked += [event for key in told if (event := _read(store, key)) and alias in event["aliases"]]
    return {"version": max(record["version"] for record in asked)} if asked else None


def _plan(store: Store, plan_digest: str) -> Record | None:
    found = [run for _, run in _all(store, "ledger/", "/run.json") if run.get("plan_digest") == plan_digest]
    newest = max(found, key=lambda run: run["started"], default=None)
    return {"run_id": newest["run_id"], "recipe": newest["recipe"]} if newest else None


def _event(store: Store, run_id: str, rest: list[str]) -> Record | None:
    """Return a lineage event from the ledger: the start of a run, its last end, or the end of a stage."""
    from components.runtime.lineage.events import RunFinished, RunStarted, StageFinished, epoch_milliseconds

    def at(time: str) -> Record:
        return {"run_id": run_id, "time": moment(time)}

    match rest:
        case ["run-started"]:
            run = _read(store, run_key(run_id))
            return RunStarted.model_validate({**run, **at(run["started"])}).model_dump(mode="json") if run else None
        case ["turns", turn]:
            end = _read(store, end_key(run_id))
            if end and f"{epoch_milliseconds(moment(end['ended'])):014d}-{end['status']}" == turn:
                return RunFinished.model_validate({**end, **at(end["ended"])}).model_dump(mode="json")
        case ["stages", stage, fingerprint, "finished"]:
            entry = _read(store, stage_key(run_id, stage))
            if entry and (entry["fingerprint"] or NO_FINGERPRINT) == fingerprint:
                return StageFinished.model_validate({**entry, **at(entry["ended"])}).model_dump(mode="json")
    return None


def _utc(value: str) -> str:
    return utc(moment(value).timestamp())
