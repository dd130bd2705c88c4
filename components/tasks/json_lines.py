"""JSON from outside: objects one a line, and values with nothing that two readers would read differently."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from components.contract.errors import InputError

UTF8_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def iter_lines(stream: Iterable[bytes], name: str) -> Iterator[tuple[str, bytes]]:
    """Yield ("name:line", line) for every non-empty line; only newlines end lines, not Unicode's other separators.

    A byte order mark of UTF-8 is dropped. Raises InputError for a file in UTF-16.
    """
    for number, raw in enumerate(stream, start=1):
        if number == 1:
            raw = without_mark(raw, name)
        if line := raw.strip():
            yield f"{name}:{number}", line


def without_mark(start: bytes, name: str) -> bytes:
    """Return the start of a file without UTF-8's byte order mark; raise InputError for the mark of UTF-16."""
    if start.startswith(UTF16_MARKS):
        raise InputError(f"{name}: this file is in UTF-16; save it as UTF-8")
    return start.removeprefix(UTF8_MARK)


def parse_line(line: bytes) -> dict[str, Any]:
    """Return the JSON object of one line.

    Raises InputError for invalid UTF-8, for anything but a JSON object, for a key that an object has twice, and for NaN
    and infinities.
    """
    value = parse_json(line, "a line of JSON")
    if not isinstance(value, dict):
        raise InputError(f"expected a JSON object, found {type(value).__name__}")
    return value


def parse_json(text: bytes, what: str) -> Any:
    """Return the value of a JSON text; raise InputError, which says what it is not, as `parse_line` does."""
    try:
        return json.loads(text.decode(), parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except InputError:  # a ValueError, too
        raise
    except UnicodeDecodeError as error:
        raise InputError(f"not UTF-8: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"not {what}: {error}") from error


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; readers differ in which of two equal keys counts."""
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise InputError(f"the key {twice[:60]!r} is twice in one object; keep one of them")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
