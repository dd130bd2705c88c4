"""Which stage made an artifact: by the run's name for it, by the registry, or the first stage that ever made it.

Most stages make new bytes, and stages that made the same bytes did the same work. A stage that passes on its input
(adopt, or select if the input wins) is identified by run and stage: the digest alone would lead back to itself.
"""

from __future__ import annotations

import re
from typing import Any

from components.runtime.ledger.ledger import Ledger
from components.runtime.lineage.registry import versions

Entry = dict[str, Any]
Item = dict[str, Any]
IN_STORE = ("artifact:", "models:")
"""Prefixes of sources that name something in the store."""
_REGISTERED = re.compile(r"models:/*(?P<name>[^@/]+)(?:@(?P<alias>.+)|/(?P<version>\d+))?")


def made(entry: Entry) -> dict[str, list[str]]:
    """Return digest -> output ports of a stage."""
    found: dict[str, list[str]] = {}
    for port, output in entry["outputs"].items():
        found.setdefault(output["digest"], []).append(port)
    return found


def handed_on(entry: Entry) -> set[str]:
    """Return the digests that are both inputs and outputs of a stage."""
    given = {item["digest"] for items in entry["inputs"].values() for item in items}
    return given & {output["digest"] for output in entry["outputs"].values()}


def stage_id(entry: Entry) -> str:
    """Return the id of a stage in a lineage graph: its fingerprint, plus run and stage if it passed on an input."""
    place = f"{entry['run_id']}/{entry['stage']}"
    if not entry["fingerprint"]:
        return f"stage:{place}"
    return f"stage:{entry['fingerprint']}" + (f"@{place}" if handed_on(entry) else "")


class Producers:
    """Finds makers in a ledger."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._planned: dict[str, set[str]] = {}

    def named(
        self, digest: str, run_id: str | None, stage: str | None, before: str | None = None, *, strict: bool = False
    ) -> Entry | None:
        """Return what made an artifact in the named stage of a run, or else the first stage ever that made it.

        Of stages that only passed it on, only those that started before the time `before` (ISO 8601) count; with
        `strict` that holds for all stages, for bytes from outside that some stage may have made later.
        """
        entry = self._ledger.stage(run_id, stage) if run_id and stage else None
        if entry and digest in made(entry):
            return self.origin(entry)
        fingerprints = [
            key.rpartition("/")[2].removesuffix(".json") for key in self._ledger.store.keys(f"producers/{digest}/")
        ]
        actions = [action for mark in fingerprints if (action := self._ledger.action(mark))]
        entries = [self._ledger.stage(action["run_id"], action["stage"]) for action in actions]
        makers = [entry for entry in entries if entry and digest in made(entry)]
        earlier = [entry for entry in makers if before is None or entry["started"] < before]
        chosen = [entry for entry in (earlier if strict else makers) if digest not in handed_on(entry)] or earlier
        return min(chosen, key=lambda entry: (entry["started"], entry["fingerprint"]), default=None)

    def of_input(self, entry: Entry, item: Item) -> Entry | None:
        """Return what made an input of a stage, resolved by its source; None for data from outside."""
        stage = self.upstream(entry, item)
        if stage is not None:
            return self.named(item["digest"], entry["run_id"], stage, entry["started"])
        strict = not item["source"].startswith(IN_STORE)
        return self.named(item["digest"], *self._registered(entry, item), entry["started"], strict=strict)

    def upstream(self, entry: Entry, item: Item) -> str | None:
        """Return the stage of the same run that an input came from, or None."""
        run = entry["run_id"]
        if run not in self._planned:
            self._planned[run] = {stage["name"] for stage in self._ledger.run_entry(run).get("stages", ())}
        stage = item["source"].rpartition(".")[0]
        return stage if stage in self._planned[run] else None

    def origin(self, entry: Entry) -> Entry:
        """Return the entry of the work that really ran: for a cache hit, that of the run that it reuses."""
        producer = entry.get("produced_by")
        if not producer or handed_on(entry):
            return entry
        found = self._ledger.stage(producer["run_id"], producer["stage"])
        return found if found and found["fingerprint"] == entry["fingerprint"] else entry

    def _registered(self, entry: Entry, item: Item) -> tuple[str | None, str | None]:
        """Return run and stage behind the registered version that an input named when the stage ran."""
        named = _REGISTERED.fullmatch(item["source"])
        if named is None:
            return None, None
        known = [
            record
            for record in versions(self._ledger.store, named["name"])
            if record["digest"] == item["digest"]
            and named["version"] in (None, str(record["version"]))
            and (maker := self._ledger.stage(record["run_id"], record["stage"]))
            and maker["started"] < entry["started"]
        ]
        meant = [record for record in known if named["alias"] in record["aliases"]] or known
        return (meant[-1]["run_id"], meant[-1]["stage"]) if meant else (None, None)
