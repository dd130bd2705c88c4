"""Reachability: which artifacts, actions and records the kept runs, registered models and pins need.

A run reaches what its stages used and made, the evidence of its gates, its reports, and what it has begun to use. A
registered model and a pinned artifact reach themselves, and the records (not the artifacts) of their ancestry, so that
`posttrain lineage` still shows how they were made.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.runtime.checkpoints.forks import fingerprint_in
from components.runtime.checkpoints.kept import KEPT
from components.runtime.ledger.records import action_key, end_key, job_key, producer_key, run_key, stage_key
from components.runtime.lineage.heal import read_or_copy
from components.runtime.upkeep.inventory import Inventory, Record
from components.runtime.upkeep.pins import ARTIFACTS, pinned

if TYPE_CHECKING:
    from components.runtime.store import Store

DIGEST = re.compile(r"\b[0-9a-f]{64}\b")
VERSION = re.compile(r"^models/[^/]+/\d+\.json$")


@dataclass
class Reach:
    """What is kept."""

    digests: set[str] = field(default_factory=set)
    fingerprints: set[str] = field(default_factory=set)
    worked_on: set[str] = field(default_factory=set)
    """Fingerprints of the stages of kept runs, and what unfinished ones of these go on from: they keep checkpoints."""
    records: set[str] = field(default_factory=set)
    """Keys of records that are kept although their run is deleted: the ancestry of registered or pinned artifacts."""


def reached(store: Store, inventory: Inventory, gone: Iterable[str], registered: Iterable[str]) -> Reach:
    """Return what is kept if the runs `gone` are deleted; `registered` are digests from a tracking server's registry.

    Raises InputError if a record that defines what is needed is damaged and has no copy.
    """
    reach, leaving = Reach(), set(gone)
    for run_id in inventory.run_ids:
        if run_id not in leaving:
            _add_run(store, inventory, run_id, reach)
    versions = [certain(store, key) for key in store.keys("models/") if VERSION.match(key)]
    kept = pinned(store, ARTIFACTS)
    starts = [(record["digest"], record["run_id"], record["stage"]) for record in versions]
    starts += [(digest, None, None) for digest in sorted({*kept, *registered})]
    reach.digests.update(digest for digest, _, _ in starts)
    _Ancestry(inventory, reach).walk([*starts, *_brought_in(inventory, leaving)])
    reach.digests |= _kept(store, reach.worked_on)
    return reach


def _kept(store: Store, fingerprints: Collection[str]) -> set[str]:
    """Return the checkpoints that work of these fingerprints kept for forks."""
    keys = [key for key in store.keys(f"{KEPT}/") if key.split("/")[1] in fingerprints]
    return {certain(store, key)["digest"] for key in keys}


def certain(store: Store, key: str) -> Record:
    """Return a record, or one rebuilt from its copies; raise InputError if it is damaged and has none."""
    record = read_or_copy(store, key)
    if record is None:
        raise InputError(
            f"{key} is damaged, and what it reaches cannot be told, so nothing is collected; "
            "posttrain verify --repair first"
        )
    return record


def digests_of(entry: Record) -> set[str]:
    """Return the artifacts that a ledger entry, an action or a start event names: used, made, evidence of gates."""
    found = {output["digest"] for output in entry.get("outputs", {}).values()}
    found |= {gate["digest"] for gate in entry.get("gates", {}).values() if gate["digest"]}
    return found | {item["digest"] for items in entry.get("inputs", {}).values() for item in items}


def _add_run(store: Store, inventory: Inventory, run_id: str, reach: Reach) -> None:
    stages = inventory.stages(run_id)
    for entry in stages.values():
        reach.digests |= digests_of(entry)
        reach.fingerprints |= {entry["fingerprint"]} if entry["fingerprint"] else set()
        reach.worked_on |= {entry["fingerprint"]} if entry["fingerprint"] else set()
    for item in inventory.started:
        if item.run_id == run_id and item.stage not in stages:
            reach.fingerprints.add(item.fingerprint)
            reach.worked_on.add(item.fingerprint)
            event = certain(store, f"spool/{run_id}/stages/{item.stage}/{item.fingerprint}/started.json")
            # a kill may have come between an action and its ledger entry
            action = read_or_copy(store, action_key(item.fingerprint))
            reach.digests |= digests_of(event) | digests_of(action or {})
    for record in inventory.alarms(run_id):
        reach.digests |= {output["digest"] for output in record["kept"].values()}
    reports = f"spool/{run_id}/reports/"
    keys = inventory.keys(run_id, "spool")
    reach.digests.update(key.removeprefix(reports).removesuffix(".json") for key in keys if key.startswith(reports))
    if (inventory.end(run_id) or {}).get("status") != "succeeded":  # it works, or it may be resumed
        reach.digests |= _asked_for(store, inventory, run_id)
        reach.worked_on |= _forked(store, inventory.entry(run_id).get("fork"))


def _forked(store: Store, fork: Record | None) -> set[str]:
    """Return the work that a run is a fork of, as long as the forked run is in the ledger."""
    with suppress(InputError):
        return {fingerprint_in(store, fork["run"], fork["stage"])} if fork else set()
    return set()


def _asked_for(store: Store, inventory: Inventory, run_id: str) -> set[str]:
    """Return the artifacts that a run which has not done all of it names in its recipe or its jobs."""
    entry: dict[str, Any] = inventory.entry(run_id)
    jobs = [stage["name"] for stage in entry.get("stages", ())]
    texts = [entry.get("recipe_text") or "", *map(str, entry.get("overrides") or ())]
    kept = [read_or_copy(store, job_key(run_id, name)) or {} for name in jobs]
    texts += [f"{job.get('inputs', '')} {job.get('uploaded', '')}" for job in kept]
    return {digest for text in texts for digest in DIGEST.findall(text)}


def _brought_in(inventory: Inventory, leaving: set[str]) -> list[tuple[str, str | None, str | None]]:
    """Return what the kept runs took from outside themselves: (digest, run, stage) to start from."""
    found: dict[str, None] = {}
    for run_id in inventory.run_ids:
        if run_id in leaving:
            continue
        for entry in inventory.stages(run_id).values():
            made_by = entry.get("produced_by")
            found |= dict.fromkeys(digests_of(entry) if made_by and made_by["run_id"] in leaving else ())
            inputs = [item for items in entry["inputs"].values() for item in items]
            found |= {item["digest"]: None for item in inputs if item["source"].startswith(("artifact:", "models:"))}
    return [(digest, None, None) for digest in found]


class _Ancestry:
    """Traverses from artifacts to the records of what made them, as `posttrain lineage` does."""

    def __init__(self, inventory: Inventory, reach: Reach) -> None:
        self._inventory, self._reach = inventory, reach
        self._makers: dict[str, Record] = {}
        for entry in sorted(inventory.all_stages(), key=lambda entry: (entry["started"], str(entry["fingerprint"]))):
            for output in entry["outputs"].values():
                if entry["cache"] == "miss":
                    self._makers.setdefault(output["digest"], entry)

    def walk(self, waiting: list[tuple[str, str | None, str | None]]) -> None:
        """Keep the records of all ancestors of each (digest, run, stage)."""
        done: set[tuple[str, str | None, str | None]] = set()
        while waiting:
            place = waiting.pop()
            if place in done:
                continue
            done.add(place)
            digest, run_id, stage = place
            named = self._inventory.stages(run_id).get(stage) if run_id in self._inventory.blobs and stage else None
            for entry in filter(None, {id(item): item for item in (named, self._makers.get(digest))}.values()):
                self._keep(entry)
                waiting += self._behind(entry)

    def _keep(self, entry: Record) -> None:
        run_id, mark = entry["run_id"], entry["fingerprint"]
        self._reach.records |= {run_key(run_id), end_key(run_id), stage_key(run_id, entry["stage"])}
        if mark:
            self._reach.fingerprints.add(mark)
            self._reach.records |= {producer_key(item["digest"], mark) for item in entry["outputs"].values()}

    def _behind(self, entry: Record) -> list[tuple[str, str | None, str | None]]:
        stages = {stage["name"] for stage in self._inventory.entry(entry["run_id"]).get("stages", ())}
        items = [item for items in entry["inputs"].values() for item in items]
        sources = [(item["digest"], item["source"].rpartition(".")[0]) for item in items]
        return [(d, entry["run_id"], name) if name in stages else (d, None, None) for d, name in sources]
