"""Where a run has gone on, and from where another one came, in words."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from components.contract.errors import PosttrainError
from components.runtime.checkpoints.moves import asked

if TYPE_CHECKING:
    from components.runtime.store import Store

SHOWN_OF_A_DIGEST = 12


def move_lines(store: Store, run_id: str, run: Mapping[str, Any]) -> list[str]:
    """Return in a line each where a run was moved from and to; empty for other runs."""
    lines = []
    with suppress(PosttrainError):  # a damaged record: the rest is told
        if source := run.get("moved"):
            record = asked(store, source) or {}
            lines.append(f"from run {source}{_states(record)}")
        if record := asked(store, run_id) or {}:
            after = f", as run {record['as']}" if record.get("as") else ""
            lines.append(f"to engine {record['to']}{after}{_states(record)}")
    return lines


def _states(record: Mapping[str, Any]) -> str:
    states = record.get("states") or ()
    told = [f"{one['stage']}@{one['step']} (state {one['digest'][:SHOWN_OF_A_DIGEST]})" for one in states]
    return f": {', '.join(told)}" if told else ""
