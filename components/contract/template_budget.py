"""What one rendering of a chat template may cost, in characters made and in seconds."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from jinja2 import TemplateRuntimeError

MAX_CHARS = 1 << 25
"""Characters that one rendering may make, intermediate ones included, beside 200 for each of its input."""
STEP_CHARS = 50
CALL_CHARS = 200
"""Characters that one step of a loop, or one call, counts for."""
ITEM_CHARS = 16
"""The same for an item of a list or mapping."""
MAX_SECONDS = 3.0
MAX_NUMBER = 100_000
"""Largest width, count or indent that a template may give to a filter or method."""
WIDE = re.compile(r"[%:{][^a-zA-Z%{}]*\d{6,}|:[^{}]*\{|%[-+ #0]*\*|%\d*\.\*")
"""A width in a format that may make any amount of text."""


class Budget:
    """What one rendering has left."""

    def __init__(self, chars: int) -> None:
        self.left = self.chars = chars
        self.deadline = time.monotonic() + MAX_SECONDS

    def charge(self, chars: int) -> None:
        self.left -= chars
        if self.left < 0:
            raise TemplateRuntimeError(f"it takes more steps or makes more text than {self.chars:,} characters")
        if time.monotonic() > self.deadline:
            raise TemplateRuntimeError(f"it is not done after {MAX_SECONDS:g} seconds")

    def value(self, value: Any) -> Any:
        """Charge a value that was made, and return it."""
        self.charge(1 + size_of(value, self.left))
        return value

    def steps(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self.charge(STEP_CHARS)
            yield value


def size_of(value: Any, most: int) -> int:
    """Return the characters and items of a value, by all paths to them; a little over `most` where it is larger."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, int):
        return value.bit_length() // 3
    total, waiting = 0, [value]
    while waiting and total <= most:
        item = waiting.pop()
        if isinstance(item, str):
            total += len(item)
        elif isinstance(item, Mapping):
            total += ITEM_CHARS * (1 + len(item))
            waiting += [*item, *item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            total += ITEM_CHARS * (1 + len(item))
            waiting += item
        else:
            total += 8
    return total


def check_growth(budget: Budget, name: str, values: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Refuse what a filter or method of this name would make far larger than its arguments, before it is made."""
    for value in (*values[1:], *named.values()):
        for number in value if isinstance(value, tuple) else (value,):
            if isinstance(number, int) and abs(number) > MAX_NUMBER:
                raise TemplateRuntimeError(
                    f"it gives {str(number)[:20]} to {name!r}, at most {MAX_NUMBER:,} is allowed"
                )
    first = values[0] if values else None
    if name == "replace" and isinstance(first, str) and len(values) > 2:
        budget.charge(first.count(str(values[1])) * len(str(values[2])))
    elif name == "join":
        glue, parts = (values[1] if len(values) > 1 else named.get("d", "")), first
        if isinstance(first, str) and len(values) > 1 and not isinstance(values[1], str):  # of the method
            glue, parts = first, values[1]
        if isinstance(parts, Sequence):
            budget.charge(len(parts) * len(str(glue)) + size_of(parts, budget.left))
    elif name == "sum" and not isinstance(named.get("start", 0), int | float):
        raise TemplateRuntimeError("it sums other things than numbers")
    elif name in ("format", "format_map") and (name == "format_map" or WIDE.search(str(first))):
        raise TemplateRuntimeError("it formats text with a width that has no bound")
    elif name == "strftime_now" and WIDE.search(str(first)):
        raise TemplateRuntimeError("it formats the date with a width that has no bound")
