"""Which verifiers the rows of an artifact name: those that a stage with these rows may call."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from components.contract.artifacts import ArtifactType
from components.contract.operator_files.names import travel_name
from components.contract.registry import operators

HOLDS_ROWS = (ArtifactType.DATASET, ArtifactType.ROLLOUTS)
MAX_VERIFIERS = 100
MAX_NAME = 190


def named_verifiers(place: Path) -> list[str] | None:
    """Return the verifiers that the rows of a Dataset or Rollouts folder, or of one file, name; None if unknown.

    Rows choose a verifier by `verifier`, and its config by `data.settings`, which may name verifiers that it calls;
    in `data`, whatever has a `name` may have a `verifier`, too, as the criteria of a rubric do;
    a whole task in `data` has its own settings.
    They are unknown if rows cannot be read, or if names exceed the limits of number or length.
    """
    found: set[str] = set()
    settings: set[str] = set()
    patterns = ("rows.jsonl", "rows-*.jsonl")
    files = [place] if place.is_file() else [path for name in patterns for path in sorted(place.glob(name))]
    if any(
        path.suffix != ".jsonl" for path in files
    ):  # a table of another format, whose rows get a verifier as they are read
        return None
    try:
        for path in files:
            with path.open("rb") as stream:
                for number, line in enumerate(stream):
                    if not number and _asks_alone(line):
                        return None
                    _note(line, found, settings)
                    if len(found) > MAX_VERIFIERS:
                        return None
    except (OSError, ValueError, RecursionError):
        return None
    known = set(operators("verifier").names())
    texts = {text for written in settings for text in _strings(json.loads(written))}
    nested = {text for text in texts if text in known or travel_name(text)}
    found |= nested
    return sorted(found) if files and all(len(name) <= MAX_NAME for name in found) else None


def union(parts: Iterable[list[str] | None]) -> list[str] | None:
    """Return the names of several inputs, sorted; None if those of any are unknown."""
    known = list(parts)
    return None if None in known else sorted({name for part in known for name in part or ()})


def _asks_alone(line: bytes) -> bool:
    """Return whether a row asks something and names no verifier, so that one is chosen where it is read."""
    row = json.loads(line) if b"answer" in line or b"ground_truth" in line else None
    return isinstance(row, dict) and not row.keys() & {"verifier", "response", "chosen", "completions", "completion"}


def _note(line: bytes, found: set[str], settings: set[str]) -> None:
    if b"verifier" not in line and b"\\u" not in line:  # a name may be written in escapes
        return
    row = json.loads(line)
    if not isinstance(row, dict):
        return
    if isinstance(name := row.get("verifier"), str):
        found.add(name)
    data = row.get("data")
    if isinstance(data, dict) and (given := data.get("settings")):
        settings.add(json.dumps(given, sort_keys=True))
    if line.count(b"verifier") > 1 or b"\\u" in line:
        settings.update(json.dumps(spec, sort_keys=True) for spec in _nested(data))


def _nested(value: Any) -> Iterator[Any]:
    """Yield the verifiers of all mappings with a `name`, and the settings of all tasks, at any depth."""
    if isinstance(value, dict):
        if "verifier" in value and "name" in value:
            yield value["verifier"]
        if "verifier" in value and isinstance(data := value.get("data"), dict) and data.get("settings"):
            yield data["settings"]
        for item in value.values():
            yield from _nested(item)
    elif isinstance(value, list):
        for item in value:
            yield from _nested(item)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in [*value, *value.values()] if isinstance(value, dict) else value:
            yield from _strings(item)
