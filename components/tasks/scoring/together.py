"""Several calls of one function in one run of the sandbox."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def run(argument: dict[str, Any]) -> list[dict[str, Any]]:
    """Return {"value": ...} or {"raised": "Type: text"} of a function ("module:name") for each of its arguments."""
    module, _, name = argument["function"].partition(":")
    function = getattr(import_module(module), name)
    results: list[dict[str, Any]] = []
    for one in argument["arguments"]:
        try:
            results.append({"value": function(one)})
        except MemoryError:
            raise
        except Exception as error:
            results.append({"raised": f"{type(error).__name__}: {error}"[:200]})
    return results
