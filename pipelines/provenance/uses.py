"""Which stages read which source, in all runs of a store: sources of parameters, and inputs from outside."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError, PosttrainError, did_you_mean
from components.runtime.lineage.graph.producers import IN_STORE
from pipelines.provenance.terms import stated_license
from pipelines.recipe.sources import NamedSource, named_sources, plain_source

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import Ledger

Entry = Mapping[str, Any]
CARD = "card.json"
MAX_TOLD = 40
"""Sources that a message on an unknown one lists."""


@dataclass(frozen=True)
class Use:
    """A stage that read a source; of stages that share one result, the one that did the work."""

    source: NamedSource
    entry: Entry
    """Its ledger entry."""
    runs: tuple[str, ...]
    """All runs that have the result, the oldest first."""
    port: str = ""
    """The input, for a source that is one."""
    drawn: int | None = None
    kept: int | None = None
    """Rows of the source that came, and that stayed; None where no card tells."""
    license: str | None = None
    revision: str | None = None
    sha256: str | None = None
    """Of the file that was read."""

    @property
    def stage(self) -> str:
        """Return the stage's name in its run."""
        return str(self.entry["stage"])

    def to_json(self) -> dict[str, Any]:
        """Return it for scripts."""
        return {
            "source": self.source.label,
            "place": self.source.place,
            "domain": self.source.domain,
            "run": self.entry["run_id"],
            "runs": list(self.runs),
            "stage": self.stage,
            "input": self.port or None,
            "drawn": self.drawn,
            "kept": self.kept,
            "license": self.license,
            "revision": self.revision,
            "sha256": self.sha256,
        }


def uses_of(ledger: Ledger, name: str) -> list[Use]:
    """Return the stages that read the source that `name` means, the oldest first.

    Raises InputError, with near misses, if none does.
    """
    wanted, found = plain_source(name), []
    known: set[str] = set()
    for entry, runs in _works(ledger):
        group = entry.get("group") or entry["stage"]
        for source, port in _sources(entry):
            known |= source.names
            if source.is_called([wanted], group):
                found.append(_use(ledger, source, entry, runs, port))
    if not found:
        listed = sorted(known)[:MAX_TOLD]
        raise InputError(f"no run of this store read a source {wanted!r}{did_you_mean(wanted, listed)}")
    return sorted(found, key=lambda use: (use.entry["started"], use.stage))


def sources_in(ledger: Ledger, entry: Entry) -> list[Use]:
    """Return what one stage read from outside."""
    return [_use(ledger, source, entry, (entry["run_id"],), port) for source, port in _sources(entry)]


def _works(ledger: Ledger) -> Iterator[tuple[Entry, tuple[str, ...]]]:
    """Yield each work that was done once, with the runs that have it."""
    by_mark: dict[str, list[Entry]] = {}
    for run_id in ledger.newest[::-1]:
        records = ledger.read(key for key in ledger.keys_of(run_id) if "/stages/" in key)
        for entry in records.values():
            if entry["fingerprint"] and entry["outputs"]:
                by_mark.setdefault(entry["fingerprint"], []).append(entry)
    for entries in by_mark.values():
        worked = next((entry for entry in entries if not entry.get("produced_by")), entries[0])
        yield worked, tuple(dict.fromkeys(entry["run_id"] for entry in entries))


def _sources(entry: Entry) -> Iterator[tuple[NamedSource, str]]:
    for source in named_sources(entry["params"]):
        yield source, ""
    for port, items in entry["inputs"].items():
        for item in items:
            if _is_outside(str(item["source"])):
                yield _outside(str(item["source"]), item["type"]), port


def _is_outside(text: str) -> bool:
    """Return whether an input's source is a path or an address: a stage's output is called stage.port."""
    return not text.startswith(IN_STORE) and (":" in text or "/" in text)


def _outside(uri: str, type: str) -> NamedSource:
    scheme, mark, rest = uri.partition(":")
    rest = (rest if mark else uri).strip("/")
    label = rest if scheme == "hf" else PurePosixPath(rest).name or uri
    return NamedSource(-1, label, frozenset({label, uri, rest}), uri, None, None, str(type))


def _use(ledger: Ledger, source: NamedSource, entry: Entry, runs: tuple[str, ...], port: str) -> Use:
    if port:
        digest = next(item["digest"] for item in entry["inputs"][port] if item["source"] == source.place)
        license = stated_license(ledger.store, digest) if source.domain == ArtifactType.MODEL else None
        return Use(source, entry, runs, port, license=license)
    card = _card(ledger, entry)
    told = card[source.position] if source.position < len(card) else {}
    origin = told.get("origin", {})
    return Use(
        source,
        entry,
        runs,
        drawn=told.get("drawn"),
        kept=told.get("kept"),
        license=origin.get("license") or source.license,
        revision=origin.get("revision") or source.revision,
        sha256=origin.get("sha256"),
    )


def _card(ledger: Ledger, entry: Entry) -> list[Mapping[str, Any]]:
    """Return what the card of a stage's dataset says of each source; empty without one."""
    output = entry["outputs"].get("dataset")
    if output is None:
        return []
    try:
        found = json.loads(ledger.store.read_file(output["digest"], CARD))["sources"]
    except (PosttrainError, ValueError, KeyError, TypeError):  # it is gone, or another program's
        return []
    return found if isinstance(found, list) and all(isinstance(one, dict) for one in found) else []
