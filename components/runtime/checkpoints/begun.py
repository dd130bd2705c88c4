"""Work that stages of a run began, ended or not, as the events of their beginnings tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from components.runtime.store import Store

STARTED = "/started.json"


def beginnings(store: Store, run_id: str, stage: str = "") -> Iterator[dict[str, Any]]:
    """Yield the events of the beginnings in a run that have a fingerprint; with `stage`, those of one stage."""
    for key in store.keys(f"spool/{run_id}/stages/{f'{stage}/' if stage else ''}"):
        event = store.recover(key) if key.endswith(STARTED) else None
        if event and event["fingerprint"]:
            yield event


def newest_fingerprints(store: Store, run_id: str, stage: str = "") -> dict[str, str]:
    """Return stage -> fingerprint of the work that it began last in a run; with `stage`, of that stage alone."""
    found: dict[str, tuple[str, str]] = {}
    for event in beginnings(store, run_id, stage):
        one = (str(event["time"]), str(event["fingerprint"]))
        found[event["stage"]] = max(found.get(event["stage"], ("", "")), one)
    return {name: mark for name, (_, mark) in sorted(found.items())}
