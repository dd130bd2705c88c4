"""Files of rows: which ones a path names, and the rows of one, streamed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from components.contract.errors import InputError
from components.contract.table_suffixes import ARROW, DELIMITED, JSON, JSONL, PARQUET, TABLES
from components.contract.uploaded import files_of
from components.tasks.source import BadRow
from components.tasks.tabular.columnar import read_arrow, read_parquet
from components.tasks.tabular.delimited import read_delimited
from components.tasks.tabular.json_files import read_document, read_lines
from components.tasks.tabular.opened import NamedRow

Reader = Callable[[Path], Iterator[NamedRow | BadRow]]
JSONL_SUFFIXES = (".jsonl", ".jsonl.gz", ".jsonl.zst", ".ndjson")
PARQUET_SUFFIXES = PARQUET
READERS: Mapping[tuple[str, ...], Reader] = {
    JSONL: read_lines,
    JSON: read_document,
    DELIMITED: read_delimited,
    PARQUET: read_parquet,
    ARROW: read_arrow,
}


def find_files(path: str, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the files that a file, folder or glob pattern names, sorted; raise InputError when there are none."""
    if (sent := files_of(path)) is not None:
        return sent
    try:
        given = Path(path).expanduser()
    except RuntimeError:
        raise InputError(f"{path}: there is no such user's folder") from None
    if given.is_file():
        return [given]
    if given.is_dir():
        found = [file for suffix in suffixes for file in given.rglob(f"*{suffix}")]
    else:
        root = Path(given.anchor) if given.is_absolute() else Path()
        found = list(root.glob(str(given.relative_to(given.anchor)))) if any(c in path for c in "*?[") else []
    if not (found := sorted({file for file in found if file.is_file()})):
        raise InputError(f"{path}: no such file, folder with {' or '.join(suffixes)} files, or matching pattern")
    return found


def find_tables(path: str) -> list[Path]:
    """Return the files of any readable format that a path names; raise InputError where they are of several formats."""
    files = find_files(path, TABLES)
    if any(file.suffix == ".arrow" for file in files):  # `save_to_disk` leaves its notes beside them, as JSON
        files = [file for file in files if file.name not in ("dataset_info.json", "state.json")]
    kinds = {_reader(file): file for file in files}
    if len(kinds) > 1:
        first, second, *_ = sorted(file.name for file in kinds.values())
        raise InputError(f"{path}: holds files of several formats, such as {first} and {second}; name a pattern: *.csv")
    return files


def read_table(path: Path) -> Iterator[NamedRow | BadRow]:
    """Yield the rows of one file, streamed; its suffix decides the format, in small or large letters."""
    return _reader(path)(path)


def _reader(path: Path) -> Reader:
    name = path.name.lower()
    reader = next((reader for suffixes, reader in READERS.items() if name.endswith(suffixes)), None)
    if reader is None:
        raise InputError(f"{path.name}: unknown format; readable are {', '.join(TABLES)}")
    return reader
