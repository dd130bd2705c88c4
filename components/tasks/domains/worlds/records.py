"""Records of small numbers, and ways of writing one that each say all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

FIRST = ord("a")
MAX_VALUES = 10
Record = tuple[int, ...]


def _running(record: Record, values: int) -> Record:
    return tuple(total % values for total in accumulate(record))


def _differences(record: Record, values: int) -> Record:
    return tuple((one - before) % values for one, before in zip(record, (0, *record), strict=False))


def _mirrored(record: Record, values: int) -> Record:
    return tuple(values - 1 - field for field in record)


ENCODINGS: Mapping[str, tuple[Callable[[Record, int], Record], Callable[[Record, int], Record]]] = {
    "digits": (lambda record, values: record, lambda record, values: record),
    "letters": (lambda record, values: record, lambda record, values: record),
    "backward": (lambda record, values: record[::-1], lambda record, values: record[::-1]),
    "mirrored": (_mirrored, _mirrored),
    "running": (_running, _differences),
}
"""Name -> what is written of a record, and back; each keeps the number of fields. `letters` writes a for 0."""


def write_view(encoding: str, record: Record, values: int) -> str:
    """Return a record of numbers below `values` in an encoding."""
    first = FIRST if encoding == "letters" else ord("0")
    return "".join(chr(first + field) for field in ENCODINGS[encoding][0](record, values))


def read_view(encoding: str, text: str, num_fields: int, values: int) -> Record | None:
    """Return the record that a view says, or None where it is no view of so many fields."""
    first = FIRST if encoding == "letters" else ord("0")
    fields = tuple(ord(character) - first for character in text)
    if len(fields) != num_fields or not all(0 <= field < values for field in fields):
        return None
    return ENCODINGS[encoding][1](fields, values)


def reconstruct(records: Sequence[Record]) -> Record:
    """Return the record that most views agree on, field by field; the earliest view decides a tie."""
    return tuple(Counter(fields).most_common(1)[0][0] for fields in zip(*records, strict=True))
