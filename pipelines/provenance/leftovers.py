"""What is left of removed sources: their rows, looked for by content in every dataset of the rebuilt run."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import ArtifactType
from components.contract.errors import PosttrainError
from components.curation.similarity.tokens import tokens
from components.tasks.rows import iter_rows
from pipelines.provenance.nearest import content
from pipelines.provenance.rows import RowOrigins

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import RunRecord
    from components.runtime.store import Store


@dataclass
class Leftovers:
    """How many rows went, and where their texts still are: another source may have given the same ones."""

    removed: int = 0
    """Rows of the removed sources in the datasets that read them."""
    unclear: int = 0
    """Rows that one of several sources may have given, a removed one among them; they count as removed."""
    remaining: dict[str, int] = field(default_factory=dict)
    """Output of the rebuilt run -> how many of its rows have the text of a removed one."""
    unread: list[str] = field(default_factory=list)
    """Datasets that are gone or damaged, so that nothing is known of them."""


def find_leftovers(store: Store, before: RunRecord, after: RunRecord, gone: Mapping[str, Sequence[int]]) -> Leftovers:
    """Return what is left; `gone` has the positions of the removed sources of each stage that read them."""
    found, texts, origins = Leftovers(), set[bytes](), RowOrigins(store)
    for stage, positions in gone.items():
        entry = before.stages[stage]
        for port, row, number in _rows(store, entry, found):
            told = {use.source.position for use in origins.made_by(entry, number, row).sources}
            if port and told & set(positions):
                found.removed += 1
                found.unclear += len(told) > 1
                texts.add(_key(row))
    for stage, entry in after.stages.items():
        for port, row, _ in _rows(store, entry, found):
            if _key(row) in texts:
                found.remaining[f"{stage}.{port}"] = found.remaining.get(f"{stage}.{port}", 0) + 1
    return found


def _rows(store: Store, entry: Mapping[str, Any], found: Leftovers) -> Iterator[tuple[str, Mapping[str, Any], int]]:
    for port, output in entry["outputs"].items():
        if output["type"] == ArtifactType.DATASET:
            try:
                for number, (_, row) in enumerate(iter_rows(store.fetch(output["digest"]))):
                    yield port, row, number
            except PosttrainError as error:
                found.unread.append(f"{entry['run_id']}:{entry['stage']}.{port}: {error}")


def _key(row: Mapping[str, Any]) -> bytes:
    """Return 16 bytes that tell a row's words."""
    return hashlib.blake2b(" ".join(tokens(content(row))).encode("utf-8", "surrogatepass"), digest_size=16).digest()
