"""What a forked run shares with the run that it is of, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.runtime.costs.words import hours_text


def fork_lines(run: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any] | None]) -> list[str]:
    """Return in one line what a run was forked from, and what it saved; empty for other runs.

    `entries` are the ledger entries of its stages, None for those that have not ended.
    """
    fork = run.get("fork")
    if not fork:
        return []
    entry = entries.get(fork["stage"]) or {}
    record = entry.get("fork")
    known = f"; its steps before took {hours_text(record['seconds'] / 3600)}, and were not done again" if record else ""
    return [f"of run {fork['run']}, from {fork['stage']}@{fork['step']} on{known}"]
