"""A run as scripts read it: `posttrain show --json`, and what `posttrain run --json` ends with."""

from __future__ import annotations

from typing import Any

from components.runtime.ledger.ledger import UNREADABLE, RunRecord


def show_json(run: RunRecord) -> dict[str, Any]:
    """Return a run with its stages in the order of the recipe.

    A stage is `done`, `skipped` (its `reason` says why) or `failed` (its `error` does, with what it had measured);
    `blocked` by one before it that failed, `waiting` for a person, or `pending`; `unreadable` if its record is damaged.
    `seconds` of a run are those in which an engine was at it; of a stage those that its work took, with what it had
    done before it was interrupted, and of a cached one those of looking it up.
    """
    stages: dict[str, dict[str, Any]] = {}
    for name in run.stage_names:
        stages[name] = _show_stage(run, name, stages)
    entry = run.entry
    return {
        "run_id": run.run_id,
        "recipe": entry.get("recipe"),
        "status": run.status,
        "started": entry.get("started"),
        "seconds": run.end["seconds"] if run.end else None,
        "stages": list(stages.values()),
        "ended": run.end["ended"] if run.end else None,
        **{name: entry.get(name) for name in ("engine", "seed", "params", "overrides", "command")},
    }


def _show_stage(run: RunRecord, name: str, before: dict[str, dict[str, Any]]) -> dict[str, Any]:
    entry, planned = run.stages.get(name), run.planned.get(name, {})
    failure = run.failures.get(name) or {}
    known = entry or planned
    outputs = entry["outputs"] if entry else {}
    kept = ("type", "digest", "uri")
    return {
        "name": name,
        "component": known.get("component"),
        "status": entry["status"] if entry else _status(run, name, before),
        "cache": entry["cache"] if entry else "none",
        "fingerprint": (entry or failure).get("fingerprint"),
        "seconds": entry["seconds"] if entry else None,
        "metrics": (entry or failure).get("metrics", {}),
        "outputs": {port: {part: output[part] for part in kept} for port, output in outputs.items()},
        "error": failure.get("error") or run.damaged.get(name),
        "reason": entry["error"] if entry and entry["status"] == "skipped" else None,
        **{part: known.get(part) for part in ("params", "seed", "labels")},
        "approval": _approval(run, name, planned),
    }


def _status(run: RunRecord, name: str, before: dict[str, dict[str, Any]]) -> str:
    """Return the status of a stage that has not ended."""
    if name in run.damaged:
        return UNREADABLE
    decision = run.approvals.get(name, {})
    if name in run.failures or decision.get("approved") is False:
        return "failed"
    if any(before[other]["status"] in ("failed", "blocked") for other in _after(run, name) if other in before):
        return "blocked"
    return "waiting" if decision.get("asked") and decision.get("approved") is None else "pending"


def _after(run: RunRecord, name: str) -> list[str]:
    return run.planned.get(name, {}).get("after", [])


def _approval(run: RunRecord, name: str, planned: dict[str, Any]) -> dict[str, Any] | None:
    """Return what a person was asked and has said, None for each that is not known; None where nobody is asked."""
    known = run.approvals.get(name, {})
    if not known and not planned.get("needs_approval"):
        return None
    return {part: known.get(part) for part in ("message", "asked", "approved", "by", "decided")}
