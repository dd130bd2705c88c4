"""An append-only log of JSON rows in segment files, which partial checkpoints store once each.

    <level>-<first row>-<end row>.jsonl

Each checkpoint adds one segment with the rows since the last one. Sixteen segments of a level are merged into one of
the next, twice, so that a row is written three times at most and there is one file for each 256 checkpoints: bytes and
files grow linearly with the rows, whatever the number of checkpoints.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from components.contract.errors import CorruptArtifact

MERGED = 16
"""Segments of one level that become one of the next."""
LEVELS = 2
READ_ONLY = 0o444
SEGMENT = re.compile(r"^(\d)-(\d{12})-(\d{12})\.jsonl$")


class RowLog:
    """The rows of one log, in segments below `folder`, and those that no segment holds yet."""

    def __init__(self, folder: Path) -> None:
        """Continue the segments in `folder`; raise CorruptArtifact if rows between them are missing."""
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._fresh: list[bytes] = []
        self._levels: list[tuple[int, int, int]] = sorted(_place(path) for path in folder.iterdir())
        self._levels.sort(key=lambda segment: segment[1])
        ends = [0, *(end for _, _, end in self._levels)]
        if ends[:-1] != [first for _, first, _ in self._levels]:
            raise CorruptArtifact(f"{folder}: rows between the segments are missing")
        self._end = ends[-1]

    def append(self, rows: Iterable[Any]) -> None:
        """Add rows, as they are now; the next segment holds them."""
        self._fresh += [json.dumps(row, separators=(",", ":")).encode() + b"\n" for row in rows]

    def rows(self) -> list[Any]:
        """Return all rows that the segments hold."""
        return [json.loads(line) for segment in self._levels for line in self._path(segment).read_bytes().splitlines()]

    def cut(self) -> Callable[[], list[Path]]:
        """End a segment here; return what writes it, and returns all segments, on any one thread."""
        lines, self._fresh = self._fresh, []
        first, self._end = self._end, self._end + len(lines)
        end = self._end

        def write() -> list[Path]:
            if lines:
                self._write((0, first, end), b"".join(lines))
                self._merge()
            return [self._path(segment) for segment in self._levels]

        return write

    def _merge(self) -> None:
        for level in range(LEVELS):
            found = [segment for segment in self._levels if segment[0] == level]
            if len(found) < MERGED:
                return
            data = b"".join(self._path(segment).read_bytes() for segment in found)
            self._levels = [segment for segment in self._levels if segment[0] > level]
            self._write((level + 1, found[0][1], found[-1][2]), data)
            for segment in found:
                self._path(segment).unlink()

    def _write(self, segment: tuple[int, int, int], data: bytes) -> None:
        path = self._path(segment)
        path.unlink(missing_ok=True)
        path.write_bytes(data)
        path.chmod(READ_ONLY)  # so that a store links it instead of copying it
        self._levels.append(segment)

    def _path(self, segment: tuple[int, int, int]) -> Path:
        level, first, end = segment
        return self._folder / f"{level}-{first:012d}-{end:012d}.jsonl"


def _place(path: Path) -> tuple[int, int, int]:
    found = SEGMENT.match(path.name)
    if found is None:
        raise CorruptArtifact(f"{path}: not a segment of a log")
    level, first, end = map(int, found.groups())
    return level, first, end
