"""JSON files of a model folder: objects of a bounded size and depth, or one line that says why not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components.contract.errors import InputError

MOST_BYTES = 16_000_000
"""Of a file of settings; those of published models have some kilobytes."""
MOST_TOKENIZER_BYTES = 128_000_000
"""Of tokenizer.json, an index or the like; published ones have up to 40 million."""
MOST_DEPTH = 64
"""Objects and lists inside each other; libraries copy settings recursively."""


def read_object(path: Path, most_bytes: int = MOST_BYTES) -> dict[str, Any]:
    """Return a file's JSON object; raise InputError for a file that is none, or larger or deeper than any model's."""
    try:
        size = path.stat().st_size
        if size > most_bytes:
            raise InputError(f"{path} has {size:,} bytes; a file of its kind has at most {most_bytes:,}")
        content = json.loads(path.read_text(encoding="utf-8"))
    except InputError:
        raise
    except RecursionError:
        raise InputError(f"{path}: objects and lists lie more than {MOST_DEPTH} deep in each other") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON: {str(error)[:200]}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds a {type(content).__name__}, not a JSON object")
    if _is_deep(content):
        raise InputError(f"{path}: objects and lists lie more than {MOST_DEPTH} deep in each other")
    return content


def _is_deep(content: Any) -> bool:
    level = [content]
    for _ in range(MOST_DEPTH):
        level = [inner for outer in level for inner in _inside(outer) if isinstance(inner, dict | list)]
        if not level:
            return False
    return True


def _inside(outer: Any) -> Any:
    return outer.values() if isinstance(outer, dict) else outer
