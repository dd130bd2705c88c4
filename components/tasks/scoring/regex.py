"""A pattern on a text."""

from __future__ import annotations

import re
from typing import Any


def match(argument: dict[str, Any]) -> dict[str, Any]:
    """Return {"matches": bool} for `pattern` on the whole `text`, or {"broken": why} for an invalid pattern."""
    try:
        compiled = re.compile(argument["pattern"], re.IGNORECASE if argument["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        return {"broken": f"data.pattern does not compile: {error}"}
    return {"matches": compiled.fullmatch(argument["text"]) is not None}
