"""A published data set by its name: columns, verifier, licence and revision are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, model_validator

from components.contract.errors import UnknownName
from components.contract.operators import OperatorSpec
from components.tasks.published.catalogue import PUBLISHED, PublishedSet
from components.tasks.published.hub import load, revision_of
from components.tasks.published.local import DATABASES, find_set, rows_of
from components.tasks.published.reading import Reading
from components.tasks.slots import VERIFIER
from components.tasks.source import BadRow, SourceConfig, SourceRequest, SourceRows
from components.tasks.table_files import NamedRow
from components.tasks.tables import BadRows, files_digest, map_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_TESTS = 1_000


class PublishedConfig(SourceConfig):
    """Which set, and which part of it."""

    paths = ("path",)

    set: str
    """Its name: gsm8k, math, dapo_math, numina_math, skywork_or1_math, apps, taco, spider or ultrafeedback."""
    split: str | None = None
    """Which split of the hub's repository; by default the one to train on."""
    path: str | None = Field(default=None, min_length=1)
    """JSONL or Parquet files with the set's columns, read in the place of the hub's; for spider, which the hub has only
    in part, the folder with its `database` and its JSON files."""
    revision: str | None = Field(default=None, min_length=1)
    """Commit or tag of the hub's repository; the dataset's card records the commit that was read either way."""
    license: str | None = None
    """What the card records in the place of the licence that the set's own card states."""
    verifier: Annotated[OperatorSpec, VERIFIER] | None = None
    """What judges problems of mathematics: math_verify by default, or numeric or exact."""
    max_tests: int = Field(default=20, ge=1, le=MAX_TESTS)
    """Most tests of a programming problem; its first ones are kept."""
    bad_rows: BadRows = "drop"
    """What to do with a row that cannot be read, such as a proof: drop and count it, or stop with its place."""

    @model_validator(mode="after")
    def _fits(self) -> PublishedConfig:
        known = self.known
        if self.split and self.split not in known.splits:
            raise ValueError(f"{self.set} has the splits {', '.join(known.splits)}")
        if self.verifier and self.verifier.name not in known.verifiers:
            raise ValueError(f"{self.set} is judged by {' or '.join(known.verifiers)}")
        if known.tables and self.path is None:
            raise ValueError(f"{self.set} needs its folder as `path`: the hub does not have its databases")
        return self

    @property
    def known(self) -> PublishedSet:
        """Return the set. Raises UnknownName with near misses."""
        if self.set not in PUBLISHED:
            raise UnknownName("published set", self.set, PUBLISHED)
        return PUBLISHED[self.set]

    @property
    def judge(self) -> OperatorSpec:
        """Return the verifier of all rows."""
        return self.verifier or OperatorSpec(name=self.known.verifiers[0]).in_slot(VERIFIER)

    def verifiers(self) -> tuple[str, ...]:
        """Return the one verifier of all rows."""
        return (self.judge.name,)

    def local_files(self) -> list[Path]:
        """Return the files that it reads here; none where the hub's are read."""
        return find_set(self.known, self.path, self.part) if self.path else []

    @property
    def part(self) -> str:
        """Return the split that is read."""
        return self.split or self.known.splits[0]


def published(request: SourceRequest, *, config: PublishedConfig) -> SourceRows:
    """Read a published set from the hub, or files of its shape."""
    known = config.known
    config.judge.resolve()
    origin: dict[str, Any] = {"source": "published", "name": config.set, "license": config.license or known.license}
    rows: Iterable[NamedRow | BadRow]
    databases: Path | None = None
    if config.path is None:
        dataset = load(known, config.part, config.revision)
        origin |= {"hub": known.hub, "split": config.part, "revision": revision_of(known.hub, config.revision)}
        rows = ((f"{known.hub}[{config.part}]:row {number}", row) for number, row in enumerate(dataset, start=1))
    else:
        files = config.local_files()
        origin |= {"revision": config.revision, "sha256": files_digest(files), "num_files": len(files)}
        rows = rows_of(known, files)
        databases = files[0].parent / DATABASES if known.tables else None
    reading = Reading(config.judge.name, config.judge.settings, max_tests=config.max_tests, databases=databases)
    return SourceRows(map_rows(rows, lambda where, row: known.read(where, row, reading), config.bad_rows), origin)
