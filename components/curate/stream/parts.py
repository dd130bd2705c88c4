"""Parts: the rows of a source that passed their own checks, in files, with what is needed to find duplicates."""

from __future__ import annotations

import json
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from components.contract.artifacts import canonical_json
from components.curation.similarity.neighbours import Sketch

FACTS, ROWS, ARRAYS = ".json", ".lines", ".npz"
FOUND = "part-*.json"
ASKED = b"?"
"""Begins the line of an item that no one has answered yet."""


@dataclass
class Facts:
    """The counts of a part, which the card is made of."""

    source: int
    number: int
    """Position among the parts of its source."""
    drawn: int = 0
    passed: int = 0
    drops: Counter[str] = field(default_factory=Counter)
    domains: Counter[str] = field(default_factory=Counter)
    prompt_chars: Counter[int] = field(default_factory=Counter)
    answer_chars: Counter[int] = field(default_factory=Counter)

    @classmethod
    def read(cls, path: Path) -> Facts:
        """Return the facts of a file."""
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for name in ("prompt_chars", "answer_chars"):
            found[name] = {int(length): count for length, count in found[name].items()}
        return cls(**{name: Counter(value) if isinstance(value, dict) else value for name, value in found.items()})


@dataclass(frozen=True)
class Part:
    """The files of one part. They are read-only once they are there, so that a checkpoint links them."""

    path: Path
    """Their name without a suffix."""

    def file(self, suffix: str) -> Path:
        """Return one of its files."""
        return self.path.with_name(self.path.name + suffix)

    @classmethod
    def in_folder(cls, folder: Path, source: int, number: int) -> Part:
        """Return the part of a source with a number."""
        return cls(folder / f"part-{source:03d}-{number:06d}")

    def facts(self) -> Facts:
        """Return its counts."""
        return Facts.read(self.file(FACTS))

    def lines(self) -> Iterator[bytes]:
        """Yield its rows, each a line of JSON, behind ASKED an item that a demonstrator has yet to answer."""
        with self.file(ROWS).open("rb") as stream:
            yield from stream

    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return what tells its duplicates: `keys`, and of near ones `bands`, `members` and `sizes`."""
        with np.load(self.file(ARRAYS)) as found:
            return {name: found[name] for name in found.files}

    def freeze(self) -> None:
        """Make its files read-only; a restored checkpoint leaves them writable."""
        for suffix in (FACTS, ROWS, ARRAYS):
            self.file(suffix).chmod(0o444)

    def moved(self, folder: Path) -> Part:
        """Return the part after moving its files into a folder of the same file system."""
        target = Part(folder / self.path.name)
        for suffix in (ARRAYS, ROWS, FACTS):  # the counts last: a part is there when they are
            self.file(suffix).replace(target.file(suffix))
        return target

    def remove(self) -> None:
        """Remove its files."""
        for suffix in (FACTS, ROWS, ARRAYS):
            self.file(suffix).unlink()


def parts_in(folder: Path) -> list[tuple[Part, Facts]]:
    """Return the parts of a folder with their counts, in the order of the sources and their rows."""
    found = [Part(path.with_suffix("")) for path in folder.glob(FOUND)]
    return sorted(((part, part.facts()) for part in found), key=lambda pair: (pair[1].source, pair[1].number))


class PartWriter:
    """Writes a part row by row; what it holds meanwhile is its arrays."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._lines = part.file(ROWS).open("wb")
        self._keys, self._bands = array("Q"), array("Q")
        self._members, self._sizes = bytearray(), array("I")

    def add(self, row: Mapping[str, Any], key: int, sketch: Sketch | None, *, asked: bool = False) -> None:
        """Add a row, or an item that is `asked`, with its text's digest, and its sketch to remove near duplicates."""
        self._lines.write((ASKED if asked else b"") + canonical_json(row) + b"\n")
        self._keys.append(key)
        if sketch is not None:
            self._bands.extend(sketch.keys)
            self._members += sketch.members.tobytes()
            self._sizes.append(len(sketch.members))

    def close(self, facts: Facts) -> Part:
        """Write the rest, and return the part."""
        self._lines.close()
        arrays: dict[str, npt.NDArray[Any]] = {"keys": np.array(self._keys, np.uint64)}
        if self._sizes:
            arrays["bands"] = np.array(self._bands, np.uint64).reshape(len(self._sizes), -1)
            arrays["members"] = np.frombuffer(self._members, np.uint32)
            arrays["sizes"] = np.array(self._sizes, np.uint32)
        np.savez(self._part.file(ARRAYS), allow_pickle=False, **arrays)
        self._part.file(FACTS).write_text(json.dumps(vars(facts), sort_keys=True), encoding="utf-8")
        self._part.freeze()
        return self._part
