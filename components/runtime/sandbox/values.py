"""Plain JSON values across the sandbox boundary: encoded inside, decoded outside with bounds on depth and size."""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 64


class NotPlain(ValueError):
    """Bytes that are not a plain, bounded JSON value."""


def encode(value: Any) -> bytes:
    """Return a value as JSON; tuples become lists, sets sorted lists. ValueError or TypeError where it is not plain."""
    return json.dumps(value, allow_nan=False, default=_plain).encode()


def decode(raw: bytes) -> Any:
    """Return the value of untrusted bytes; NotPlain if they are not a bounded JSON value.

    The caller bounds the size. NaN, infinities, numbers too large for a float, nesting beyond MAX_DEPTH and text
    that is not Unicode are refused, so that they break nothing downstream.
    """
    try:
        value = json.loads(raw.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise NotPlain(f"no plain JSON value: {error}"[:200]) from None
    _check(value)
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, (range, bytes, bytearray)):
        return list(value)
    item = getattr(value, "item", None)  # numbers of numpy
    if callable(item) and getattr(value, "shape", None) == ():
        return item()
    raise TypeError(f"a value of type {type(value).__name__} is no JSON value")


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON number")


def _check(value: Any) -> None:
    pending = [(value, 0)]
    while pending:
        one, depth = pending.pop()
        if depth > MAX_DEPTH:
            raise NotPlain(f"nested deeper than {MAX_DEPTH}")
        if isinstance(one, float) and not math.isfinite(one):
            raise NotPlain("a number too large for a float")
        if isinstance(one, str):
            _check_text(one)
        elif isinstance(one, list):
            pending.extend((each, depth + 1) for each in one)
        elif isinstance(one, dict):
            for name, each in one.items():
                _check_text(name)
                pending.append((each, depth + 1))


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotPlain("text with half a surrogate pair") from None
