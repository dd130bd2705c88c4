"""Datasets that earlier stages made: rows keep their identifiers, domains, verifiers and pass rates."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from components.contract.errors import InputError
from components.tasks.item import item_from_row
from components.tasks.rows import iter_rows
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows

EXTRAS = ("pass_rate", "bucket", "quality", "learn", "weight")


class ArtifactConfig(SourceConfig):
    """Which of the connected datasets, and which of their rows."""

    dataset: int | None = Field(default=None, ge=0)
    """Position among the datasets connected to the stage's input `dataset`, from 0; none means all of them."""
    domains: tuple[str, ...] = ()
    """Take only rows of these domains; none named means all."""

    def verifiers(self) -> tuple[str, ...]:
        """Return none: the connected datasets name theirs."""
        return ()


def artifact(request: SourceRequest, *, config: ArtifactConfig) -> SourceRows:
    """Read rows of connected datasets of any kind: prompts, demonstrations or corpus."""
    folders = request.datasets
    if config.dataset is not None:
        if config.dataset >= len(folders):
            raise InputError(f"source artifact: dataset {config.dataset} of {len(folders)} that are connected")
        folders = (folders[config.dataset],)
    if not folders:
        raise InputError("source artifact: no dataset is connected; give the stage `in: {dataset: STAGE.dataset}`")
    return SourceRows(_rows(folders, config), {"source": "artifact", "num_datasets": len(folders)})


def _rows(folders: tuple[Path, ...], config: ArtifactConfig) -> Iterator[SourceRow]:
    for folder in folders:
        for where, row in iter_rows(folder):
            if not config.domains or row.get("domain") in config.domains:
                yield _row(where, row)


def _row(where: str, row: dict[str, Any]) -> SourceRow:
    if "text" in row:
        return SourceRow(where, text=row["text"], id=row.get("id"), domain=row.get("domain"))
    return SourceRow.of(
        item_from_row(row, where),
        where,
        response=row.get("response"),
        turns=tuple(row.get("turns") or ()),
        extras={name: row[name] for name in EXTRAS if name in row},
    )
