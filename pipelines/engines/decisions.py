"""A person's decision on a stage that waits for one, recorded and passed on to the engine of its run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError, did_you_mean
from components.runtime.ledger.ledger import load_run
from pipelines.engines.registry import find_engine
from pipelines.engines.shared.approvals import record_decision

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import RunRecord
    from components.runtime.store import Store
    from pipelines.engines.engine import Engine


def decide_stage(store: Store, run_id: str, stage: str, *, approved: bool) -> tuple[RunRecord, str | None]:
    """Record the decision; return the run, and where it continues by itself, None if it must be started again.

    Raises InputError for a stage that is unknown, needs no approval, or was decided before.
    """
    record = load_run(store, run_id)
    stages = {planned["name"]: planned for planned in record.entry.get("stages", ())}
    if stage not in stages:
        raise InputError(f"unknown stage {stage!r} of run {record.run_id}{did_you_mean(stage, stages)}")
    if not stages[stage].get("needs_approval", True):
        raise InputError(f"stage {stage!r} of run {record.run_id} needs no approval: it has no 'approve'")
    if not record_decision(store, record.run_id, stage, approved=approved):
        raise InputError(f"{stage} of run {record.run_id} was already decided; that decision stands")
    engine = _engine(record.entry)
    return record, engine.take_decision(store, record.entry, stage, approved=approved) if engine else None


def _engine(entry: Mapping[str, Any]) -> Engine | None:
    """Return the engine of a run; None if its package is no longer installed, or is broken."""
    try:
        return find_engine(str(entry.get("engine")))
    except InputError:
        return None
