"""Recorded results of reproductions: a JSON file for each method, in a folder beside the method's own file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from pipelines.language.whole_file import write_whole
from pipelines.methods.recorded import Confirmed, TunedRecord

FOLDER, TUNED = "results", "tuned"
EARLIER = "earlier protocol"
"""In the place of the claim's part, for a record of three seeds and a percentile bootstrap."""
EARLIER_PROTOCOL = f"it was made by an {EARLIER}"


def result_path(method: Path, slug: str) -> Path:
    """Return the result path of the method that the file `method` declares, a preset or a system."""
    return method.parent / FOLDER / f"{slug}.json"


def tuned_path(method: Path, slug: str) -> Path:
    """Return where the record of a method's tuning is."""
    return method.parent / FOLDER / TUNED / f"{slug}.json"


def read_result(method: Path, slug: str) -> dict[str, Any] | None:
    """Return the recorded result of a method's reproduction, or None; raise InputError for a file that is none."""
    path = result_path(method, slug)
    if not path.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        verdict_json(found)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise InputError(f"{path}: no record of a reproduction; restore it, or remove it") from None
    return found


def read_tuned(method: Path, slug: str) -> dict[str, Any] | None:
    """Return the record of a method's tuning, or None; raise InputError for a file that is none."""
    path = tuned_path(method, slug)
    if not path.is_file():
        return None
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        TunedRecord.model_validate(found)
    except (ValueError, RecursionError):
        raise InputError(f"{path}: no record of a tuning; restore it, or remove it") from None
    return found


def record_tuned(method: Path, found: dict[str, Any]) -> Path:
    """Write the record of a method's tuning, and return where."""
    path = tuned_path(method, found["slug"])
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(found, indent=1) + "\n")
    return path


def record_result(method: Path, found: dict[str, Any]) -> None:
    """Write a reproduction's result, without the run's id, which is only valid in its own store."""
    path = result_path(method, found["slug"])
    path.parent.mkdir(exist_ok=True)
    kept = {key: value for key, value in found.items() if key != "run_id"}
    write_whole(path, json.dumps(kept, indent=1) + "\n")


def verdict_json(result: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict part of a result."""
    kept = {key: result[key] for key in ("claim", "seeds", "date", "run_seconds")}
    again = result.get("confirmed")
    kept["confirmed"] = None if again is None else Confirmed.model_validate(again).model_dump()
    if "verdicts" not in result:
        return {**kept, "verdicts": {EARLIER: result["verdict"]}, "claims": {}}
    shown = ("name", "effect", "direction", "floor", "interval", "decision")
    claims = {part: {key: entry[key] for key in shown} for part, entry in result["claims"].items()}
    return {**kept, "verdicts": result["verdicts"], "claims": claims}
