"""Which source each row of a dataset came from, kept beside the page of its card: the rows stay as they are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from components.curation.candidate import Candidate

ORIGINS = "origins.json"
"""File of a Report artifact: {"rows": [position of the source in the recipe, for each row of the dataset in order]}."""


def write_origins(report: Path, drafts: Sequence[Candidate], num_sources: int) -> None:
    """Write the sources of rows; nothing where there is one source, or where no rows are in memory."""
    if num_sources > 1 and drafts:
        positions = {"rows": [draft.source for draft in drafts]}
        (report / ORIGINS).write_text(json.dumps(positions, separators=(",", ":")) + "\n", encoding="utf-8")


def read_origins(data: bytes) -> list[int]:
    """Return the source of each row; raise ValueError for what `write_origins` did not write."""
    found = json.loads(data)
    rows = found.get("rows") if isinstance(found, dict) else None
    if not isinstance(rows, list) or not all(type(row) is int and row >= 0 for row in rows):
        raise ValueError("no list of positions")
    return rows
