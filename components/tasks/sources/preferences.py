"""Files of preferences: pairs in any of TRL's forms, such as UltraFeedback's, for curate to clean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from components.contract.errors import InputError
from components.tasks.item import UNLABELLED
from components.tasks.row_kinds.preferences import KEPT, preference_of
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows
from components.tasks.table_files import JSONL_SUFFIXES, PARQUET_SUFFIXES, find_files, read_table
from components.tasks.tables import BadRows, files_digest, map_rows


class PreferencesConfig(SourceConfig):
    """Which files."""

    paths = ("path",)

    path: str = Field(min_length=1)
    """A JSONL or Parquet file, a folder or a glob pattern, beside the recipe or absolute; many are read by name."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """Digest that the file must have (of several files: the digest in the dataset card)."""
    bad_rows: BadRows = "refuse"
    """What to do with a row that is no pair, or whose sides are equal: stop with its place, or drop and count it."""

    def verifiers(self) -> tuple[str, ...]:
        """Return the one verifier of all rows: pairs have no answer."""
        return (UNLABELLED,)

    def local_files(self) -> list[Path]:
        """Return the files that the path names."""
        return find_files(self.path, (*JSONL_SUFFIXES, *PARQUET_SUFFIXES))


def preferences(request: SourceRequest, *, config: PreferencesConfig) -> SourceRows:
    """Read pairs as prompts that hold `chosen`, `rejected` and perhaps `margin`, `weight` and others.

    Take `kind: prompts` and `verifiability: off`. Raises InputError, with file and line, for a bad row.
    """
    files = config.local_files()
    digest = files_digest(files)
    if config.sha256 not in (None, digest):
        raise InputError(f"{config.path}: its sha256 is {digest}, and the recipe pins {config.sha256}")
    rows = (row for path in files for row in read_table(path))
    origin = {"source": "preferences", "name": Path(config.path).name, "sha256": digest, "num_files": len(files)}
    return SourceRows(map_rows(rows, _row, config.bad_rows), origin)


def _row(where: str, row: Mapping[str, Any]) -> SourceRow:
    pair = preference_of(row)
    task = {"prompt": pair.task} if isinstance(pair.task, str) else {"messages": pair.task}
    written = pair.row()
    kept = {name: written[name] for name in KEPT if name in written}
    return SourceRow(where, **task, verifier=UNLABELLED, id=pair.id, domain=pair.domain or None, extras=kept)
