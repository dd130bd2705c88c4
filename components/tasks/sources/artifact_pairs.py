"""Pairs that earlier stages made: rows keep both sides, and their item with its verifier where they hold one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from components.contract.errors import InputError
from components.tasks.item import UNLABELLED, item_from_row
from components.tasks.row_kinds.preferences import KEPT, preference_of
from components.tasks.rows import iter_rows
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows


class ArtifactPairsConfig(SourceConfig):
    """Which of the connected datasets."""

    dataset: int | None = Field(default=None, ge=0)
    """Position among the datasets connected to the stage's input `dataset`, from 0; none means all of them."""

    def verifiers(self) -> tuple[str, ...]:
        """Return none: the connected datasets name theirs, and pairs without an answer are not verified."""
        return ()


def artifact_pairs(request: SourceRequest, *, config: ArtifactPairsConfig) -> SourceRows:
    """Read pairs of connected datasets as prompts that hold `chosen`, `rejected` and perhaps `margin` and others.

    What a generator of pairs made keeps answer, verifier and data, so that its prompts can be trained on, too. Take
    `kind: prompts`, and `verifiability: off` for pairs without answers. Raises InputError, with file and line, for a
    row that is no pair.
    """
    folders = request.datasets
    if config.dataset is not None:
        if config.dataset >= len(folders):
            raise InputError(f"source artifact_pairs: dataset {config.dataset} of {len(folders)} that are connected")
        folders = (folders[config.dataset],)
    if not folders:
        raise InputError(
            "source artifact_pairs: no dataset is connected; give the stage `in: {dataset: STAGE.dataset}`"
        )
    return SourceRows(_rows(folders), {"source": "artifact_pairs", "num_datasets": len(folders)})


def _rows(folders: tuple[Path, ...]) -> Iterator[SourceRow]:
    for folder in folders:
        for where, row in iter_rows(folder):
            yield _row(where, row)


def _row(where: str, row: Mapping[str, Any]) -> SourceRow:
    try:
        pair = preference_of(row)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    written = pair.row()
    kept = {name: written[name] for name in KEPT if name in written}
    if "verifier" in row:
        return SourceRow.of(item_from_row(row, where), where, extras=kept)
    task: dict[str, Any] = {"prompt": pair.task} if isinstance(pair.task, str) else {"messages": pair.task}
    return SourceRow(where, **task, verifier=UNLABELLED, id=pair.id, domain=pair.domain or None, extras=kept)
