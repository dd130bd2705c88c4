"""Approvals in the ledger: what a person was asked before a stage, what there was to see, and what was decided.

A decision belongs to one run and to the inputs that it was asked about; when these change, the stage asks again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.runtime.ledger.records import approval_key, asked_key, run_key, utc

if TYPE_CHECKING:
    from components.runtime.store import Store

Record = dict[str, Any]
Read = Callable[[str], Record | None]

PARTS = ("by", "time", "engine", "inputs", "seen")
"""Parts of a decision that a stage's ledger entry keeps."""


def stands(question: Mapping[str, Any] | None, decision: Mapping[str, Any]) -> bool:
    """Return whether a decision answers the question last asked; a rejection before any question answers it, too."""
    if question is None or decision.get("inputs") == question.get("inputs"):
        return True
    return not decision["approved"] and "inputs" not in decision


def decision_on(read: Read, run_id: str, stage: str) -> Record | None:
    """Return the decision that stands on a stage; None if there is none. `read` is a store's `get` or `recover`."""
    decision = read(approval_key(run_id, stage))
    return decision if decision is not None and stands(read(asked_key(run_id, stage)), decision) else None


def open_question(read: Read, run_id: str, stage: str) -> Record | None:
    """Return the question that nobody has answered yet: message, time, inputs and what there is to see; or None."""
    question = read(asked_key(run_id, stage))
    return question if question is not None and decision_on(read, run_id, stage) is None else None


def approval_of(store: Store, run_id: str, stage: str, inputs: Mapping[str, Any]) -> Record | None:
    """Return the approval of a stage with these inputs, without the answer's own fields; None if there is none."""
    decision = store.recover(approval_key(run_id, stage))
    if decision is None or not decision["approved"] or decision.get("inputs") != inputs:
        return None
    return {part: decision.get(part) for part in PARTS}


def record_decision(store: Store, run_id: str, stage: str, *, approved: bool, by: str) -> bool:
    """Write a decision on the question last asked; returns False if an earlier one stands.

    Raises InputError for an approval before the question: there is nothing yet that a person could have seen.
    """
    question = store.recover(asked_key(run_id, stage))
    if approved and question is None:
        raise InputError(
            f"stage {stage!r} of run {run_id} has not asked yet: it asks when the stages before it have ended; "
            "approve it then"
        )
    about = {part: question.get(part) for part in ("inputs", "seen")} if question else {}
    engine = (store.recover(run_key(run_id)) or {}).get("engine")
    record: Record = {"approved": approved, "by": by, "time": time.time(), "engine": engine, **about}
    key = approval_key(run_id, stage)
    earlier = store.recover(key)
    if earlier is None:
        return store.put(key, record)
    if stands(question, earlier):
        return False
    record["earlier"] = [*earlier.pop("earlier", []), earlier]
    return store.put(key, record, overwrite=True)


def decision_text(decision: Mapping[str, Any]) -> str:
    """Return a decision in words, of its record or of `show --json`: who, when, by which engine, having seen what."""
    when = decision.get("decided") or utc(decision["time"])
    engine = f", on engine {decision['engine']}" if decision.get("engine") else ""
    line = f"{'approved' if decision['approved'] else 'rejected'} by {decision['by']}, {when}{engine}"
    return f"{line}; seen: {words}" if (words := seen_text(decision.get("seen"))) else line


def seen_text(seen: Mapping[str, Any] | None) -> str:
    """Return what there was to see in words: each stage's metrics and gates; empty if there was nothing."""
    return "; ".join(f"{stage}: {words}" for stage, facts in (seen or {}).items() if (words := _facts_text(facts)))


def _facts_text(facts: Mapping[str, Any]) -> str:
    metrics = [f"{name} {value:.4g}" for name, value in facts.get("metrics", {}).items()]
    gates = [f"gate {name} {'holds' if held else 'does not hold'}" for name, held in facts.get("gates", {}).items()]
    return ", ".join([*metrics, *gates])
