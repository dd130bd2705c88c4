"""A run as JSON for scripts: `posttrain show --json`, and the last output of `posttrain run --json`."""

from __future__ import annotations

from typing import Any

from components.runtime.ledger.ledger import UNREADABLE, RunRecord
from components.runtime.ledger.records import failure_in


def show_json(run: RunRecord) -> dict[str, Any]:
    """Return a run with its stages in recipe order.

    A stage is `done`, `skipped` (with a `reason`) or `failed` (with its `error` and its metrics so far; the run may
    have gone on without it, as `on_failure: skip` asks for); `blocked` by
    an earlier stage that failed, `waiting` for a person, or `pending`; `unreadable` if its record is damaged. A run's
    `seconds` are those in which an engine worked on it; a stage's are those of its work, including work before an
    interruption, and a cached stage's those of the lookup. `alarms` are those that the stage raised, over or not, and
    `kept` is what is left to look at of a stage that one of them ended. A run that was forked has a `fork`: run, stage
    and step; the forked stage has one, too, with the checkpoint and the seconds before it, which are among its own.
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
        **{name: entry.get(name) for name in ("engine", "seed", "params", "overrides", "command", "trigger")},
        **{name: entry[name] for name in ("fork", "moved") if name in entry},
    }


def _show_stage(run: RunRecord, name: str, before: dict[str, dict[str, Any]]) -> dict[str, Any]:
    entry, planned = run.stages.get(name), run.planned.get(name, {})
    failure = run.failures.get(name) or {}
    failed = failure_in(entry) if entry else failure.get("error")
    known = entry or planned
    outputs = entry["outputs"] if entry else {}
    kept = ("type", "digest", "uri")
    return {
        "name": name,
        "component": known.get("component"),
        "status": ("failed" if failed else entry["status"]) if entry else _status(run, name, before),
        "cache": entry["cache"] if entry else "none",
        "fingerprint": (entry or failure).get("fingerprint"),
        "seconds": entry["seconds"] if entry else None,
        "metrics": (entry or failure).get("metrics", {}),
        "outputs": {port: {part: output[part] for part in kept} for port, output in outputs.items()},
        "error": failed or run.damaged.get(name),
        "reason": entry["error"] if entry and entry["status"] == "skipped" and not failed else None,
        **{part: known.get(part) for part in ("params", "seed", "labels")},
        **({"fork": entry["fork"]} if entry and "fork" in entry else {}),
        "approval": _approval(run, name, planned),
        "alarms": run.alarms.get(name, []),
        "kept": {port: {part: output[part] for part in kept} for port, output in run.kept.get(name, {}).items()},
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
    """Return a stage's approval request and decision, unknown fields None; None if it needs no approval.

    `inputs` are the digests by port that it is about, and `seen` the run's metrics and gates when it was asked.
    """
    known = run.approvals.get(name, {})
    if not known and not planned.get("needs_approval"):
        return None
    return {
        part: known.get(part) for part in ("message", "asked", "approved", "by", "decided", "engine", "inputs", "seen")
    }
