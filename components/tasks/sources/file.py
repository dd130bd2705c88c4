"""Files of rows as other tools write them: the columns tell their shape, and one line says what became what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Annotated, Any

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.asked import Taking, verifier_of
from components.tasks.item import UNLABELLED
from components.tasks.shapes.recognise import Format, recognised
from components.tasks.slots import VERIFIER
from components.tasks.source import BadRow, SourceRequest, SourceRows
from components.tasks.sources.s3 import is_s3, read_objects
from components.tasks.table_files import NamedRow, find_tables, read_table
from components.tasks.tables import FileConfig, map_rows, open_files
from components.tasks.taken import taken_row

FIRST_ROWS = 100
"""Rows that tell the shape of all."""
ROLES = ("prompt", "messages", "answer", "response", "text", "domain", "weight")


class FileSourceConfig(FileConfig):
    """Which files; what their columns hold is told by their names, unless it is said here."""

    format: Format = "auto"
    """What the rows are, where their columns do not tell."""
    verifier: Annotated[OperatorSpec, VERIFIER] | None = None  # type: ignore[assignment]
    """The verifier of all rows; none takes numeric where the first answers are all numbers, else exact."""
    final_answer: bool | None = None  # type: ignore[assignment]
    """Take only the final answer from the answer column; none takes it where most rows mark one (####, \\boxed{})."""

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifiers that rows may name."""
        return (UNLABELLED, self.verifier.name) if self.verifier else (UNLABELLED, "exact", "numeric")

    def local_files(self) -> list[Path]:
        """Return the files that the path names; none for a bucket."""
        return [] if is_s3(self.path) else find_tables(self.path)

    def opened(self, rows: Iterable[NamedRow | BadRow], origin: Mapping[str, Any]) -> SourceRows:
        """Return the rows by the shape of the first ones; the origin says how they are read, in `read_as`."""
        rows = iter(rows)
        first = list(islice(rows, FIRST_ROWS))
        readable = [row for row in first if not isinstance(row, BadRow)]
        if isinstance(first[0] if first else None, BadRow) and self.bad_rows == "refuse":
            raise InputError(f"{first[0].where}: {first[0].problem}")
        taking, line = self._taking([row for _, row in readable])
        if taking.verifier:
            taking.verifier.resolve(VERIFIER)
        read = map_rows(chain(first, rows), lambda where, row: taken_row(where, row, taking), self.bad_rows)
        return SourceRows(read, {**origin, "read_as": line})

    def reading(self, files: Sequence[Path]) -> str:
        """Return a line that says how local files are read."""
        rows = (row for path in files for row in read_table(path))
        return _line(self.path, self.opened(rows, {}))

    def further(self, files: Sequence[Path]) -> frozenset[str]:
        """Return the names of the further columns that rows of local files keep."""
        rows = (row[1] for path in files for row in read_table(path) if not isinstance(row, BadRow))
        return super().further(files) | {*self._taking(list(islice(rows, FIRST_ROWS)))[0].shape.kept}

    def _taking(self, rows: Sequence[Mapping[str, Any]]) -> tuple[Taking, str]:
        """Return how rows are taken, and the same in words; raise InputError for what cannot be decided."""
        name = Path(self.path).name
        if not rows:
            raise InputError(f"{name}: there are no rows that could be read")
        said = {role: getattr(self.columns, role) for role in ROLES if role in self.columns.model_fields_set}
        try:
            shape = recognised(rows, said, self.format)
        except InputError as error:
            raise InputError(f"{name}: {error}") from error
        final = shape.final_answer if self.final_answer is None else self.final_answer
        verifier, why = verifier_of(rows, shape, final, self.verifier)
        line = f"{shape.described()}{f'; {why}' if why else ''}"
        return Taking(shape, verifier, final, self.columns.id, self.columns.data), line


def file(request: SourceRequest, *, config: FileSourceConfig) -> SourceRows:
    """Read a file of rows in any usual format and shape, and print what was recognised.

    JSONL, JSON, CSV, TSV, Parquet and Arrow; the shapes of TRL, OpenAI, ShareGPT, Alpaca, verl, verifiers, and plain
    columns of questions and answers. Raises InputError, with the line to write, for what cannot be decided.
    """
    if is_s3(config.path):
        opened = read_objects(request, config)
    else:
        opened = open_files(config.local_files(), config, {"source": "file", "name": Path(config.path).name})
    print(_line(config.path, opened), flush=True)
    return opened


def _line(path: str, opened: SourceRows) -> str:
    return f"source file: {Path(path).name}: {opened.origin['read_as']}"
