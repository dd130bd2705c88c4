"""posttrain approve: record a person's decision on a stage, for every engine."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError, did_you_mean
from pipelines.cli.output import print_text
from pipelines.cli.stores import run_of, store_of

if TYPE_CHECKING:
    from pipelines.engines.engine import Engine


def approve(arguments: argparse.Namespace) -> int:
    """Record a person's decision on a stage; the run continues when it is run again."""
    from components.runtime.ledger.ledger import load_run
    from pipelines.engines.shared.approvals import record_decision

    store = store_of(arguments)
    record = load_run(store, run_of(store, arguments.run))
    stages = {stage["name"]: stage for stage in record.entry.get("stages", ())}
    if arguments.stage not in stages:
        raise InputError(
            f"unknown stage {arguments.stage!r} of run {record.run_id}{did_you_mean(arguments.stage, stages)}"
        )
    if not stages[arguments.stage].get("needs_approval", True):
        raise InputError(f"stage {arguments.stage!r} of run {record.run_id} needs no approval: it has no 'approve'")
    word = "rejected" if arguments.reject else "approved"
    if not record_decision(store, record.run_id, arguments.stage, approved=not arguments.reject):
        raise InputError(f"{arguments.stage} of run {record.run_id} was already decided; that decision stands")
    print_text(f"{arguments.stage} of run {record.run_id} is {word}")
    engine = _engine(record.entry)
    if engine is not None:
        where = engine.take_decision(store, record.entry, arguments.stage, approved=not arguments.reject)
        if where:
            print(f"the run continues {where}")
        if where is not None:
            return 0
    if record.status == "waiting":
        option = f" --store {shlex.quote(arguments.store)}" if arguments.store else ""
        command = f"{record.entry.get('command') or 'the same posttrain run command'}{option}"
        print_text(f"start over with: {command} --new" if arguments.reject else f"continue with: {command}")
    return 0


def _engine(entry: Mapping[str, Any]) -> Engine | None:
    """Return the engine of a run; None if its package is no longer installed, or is broken."""
    from pipelines.engines.registry import find_engine

    try:
        return find_engine(str(entry.get("engine")))
    except InputError:
        return None
