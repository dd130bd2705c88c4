"""From a row of a dataset back to the source that gave it, through the stages that only passed it on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import ArtifactType
from components.contract.errors import InputError, PosttrainError
from components.curate.origins import ORIGINS, read_origins
from components.runtime.ledger.ledger import Ledger
from components.runtime.lineage.graph.producers import Producers
from components.tasks.rows import iter_rows
from pipelines.provenance.uses import Use, sources_in

if TYPE_CHECKING:
    from components.runtime.store import Store

MAX_STAGES = 20
"""Stages that a row is followed back through."""


@dataclass(frozen=True)
class RowOrigin:
    """Where a row came from."""

    stages: tuple[str, ...]
    """The stages that it passed, the one that holds it first."""
    sources: tuple[Use, ...] = ()
    """What gave it: one, several where only its domain tells, none where it was made here."""

    @property
    def words(self) -> str:
        """Return it for people."""
        if not self.sources:
            return f"made by {self.stages[-1]}" if self.stages else "not known"
        return " or ".join(dict.fromkeys(_told(use) for use in self.sources))


def _told(use: Use) -> str:
    domain = f" ({use.source.domain})" if use.source.domain not in (None, use.source.label) else ""
    return f"{use.source.label}{domain}"


class RowOrigins:
    """Finds the sources of rows, each stage's read once."""

    def __init__(self, store: Store) -> None:
        self._store, self._ledger = store, Ledger(store)
        self._producers = Producers(self._ledger)
        self._known: dict[str, list[Use]] = {}
        self._positions: dict[str, list[int] | None] = {}
        self._rows: dict[str, dict[str, tuple[int, Mapping[str, Any]]]] = {}

    def of(self, entry: Mapping[str, Any], item: Mapping[str, Any], number: int, row: Mapping[str, Any]) -> RowOrigin:
        """Return where a row of an input of a stage came from; `number` is its position in the artifact."""
        stages: list[str] = []
        while len(stages) < MAX_STAGES:
            maker = self._producers.of_input(dict(entry), dict(item))
            if maker is None:
                return RowOrigin(tuple(stages), tuple(self._outside(entry, item)))
            stages.append(str(maker["stage"]))
            found = self._sources(maker, number, row)
            if found:
                return RowOrigin(tuple(stages), found)
            earlier = self._earlier(maker, row)
            if earlier is None:
                return RowOrigin(tuple(stages), self._fitting(maker, row))
            entry, (item, number, row) = maker, earlier
        return RowOrigin(tuple(stages))

    def made_by(self, entry: Mapping[str, Any], number: int, row: Mapping[str, Any]) -> RowOrigin:
        """Return where a row of a stage's own output came from."""
        found = self._sources(entry, number, row)
        earlier = None if found else self._earlier(entry, row)
        if earlier is None:
            return RowOrigin((str(entry["stage"]),), found or self._fitting(entry, row))
        item, place, kept = earlier
        origin = self.of(entry, item, place, kept)
        return RowOrigin((str(entry["stage"]), *origin.stages), origin.sources)

    def _outside(self, entry: Mapping[str, Any], item: Mapping[str, Any]) -> list[Use]:
        return [use for use in sources_in(self._ledger, entry) if use.source.place == item["source"]]

    def _sources(self, maker: Mapping[str, Any], number: int, row: Mapping[str, Any]) -> tuple[Use, ...]:
        """Return the sources of a stage that may have given a row: the one on record, or those of its domain."""
        mark = str(maker["fingerprint"])
        if mark not in self._known:
            self._known[mark] = [use for use in sources_in(self._ledger, maker) if not use.port]
            self._positions[mark] = self._recorded(maker)
        uses, positions = self._known[mark], self._positions[mark]
        if positions is not None and number < len(positions):
            return tuple(use for use in uses if use.source.position == positions[number])
        passes_on = len(uses) < len(maker["params"].get("sources") or ())
        return () if passes_on else self._fitting(maker, row)

    def _fitting(self, maker: Mapping[str, Any], row: Mapping[str, Any]) -> tuple[Use, ...]:
        """Return the sources of a stage that have the domain of a row, or name none."""
        uses = self._known.get(str(maker["fingerprint"]), [])
        return tuple(use for use in uses if use.source.domain in (None, row.get("domain")) and use.kept != 0)

    def _recorded(self, maker: Mapping[str, Any]) -> list[int] | None:
        report = maker["outputs"].get("report")
        if report is None:
            return None
        try:
            return read_origins(self._store.read_file(report["digest"], ORIGINS))
        except (PosttrainError, ValueError):  # it has one source, is streamed, or from before this was recorded
            return None

    def _earlier(
        self, maker: Mapping[str, Any], row: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], int, Mapping[str, Any]] | None:
        """Return the input of a stage, the position and the row that it passed on, by id."""
        identifier = row.get("prompt_id", row.get("id"))
        for items in maker["inputs"].values():
            for item in items:
                if item["type"] == ArtifactType.DATASET and identifier is not None:
                    found = self._by_id(str(item["digest"])).get(str(identifier))
                    if found is not None:
                        return item, *found
        return None

    def _by_id(self, digest: str) -> dict[str, tuple[int, Mapping[str, Any]]]:
        if digest not in self._rows:
            try:
                rows = iter_rows(self._store.fetch(digest))
                self._rows[digest] = {str(row.get("id")): (number, row) for number, (_, row) in enumerate(rows)}
            except (InputError, PosttrainError):
                self._rows[digest] = {}
        return self._rows[digest]
