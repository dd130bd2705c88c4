"""Notices of a run: what the notification command is told, each thing once, whichever process sees it first."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from components.contract.errors import PosttrainError
from components.contract.job import Job
from components.runtime.system.notify import is_set, notify

if TYPE_CHECKING:
    from components.runtime.store import Store


def tell_alarm(store: Store, job: Job, alarm: Mapping[str, Any]) -> None:
    """Tell of an alarm that was raised, given its record."""
    told = {name: alarm[name] for name in ("name", "since", "text", "helps")}
    facts = {"recipe": job.recipe, "stage": job.stage, "on_alarm": job.on_alarm, "alarm": told}
    _tell(store, job.run_id, f"alarm-{job.stage}-{alarm['name']}-{alarm['since']}", "alarm", facts)


def tell_question(store: Store, job: Job, *, again: bool = False) -> None:
    """Tell that a stage waits for a person; `again`, once more in this run, since its inputs changed."""
    message = job.approve.message if job.approve else ""
    facts = {"recipe": job.recipe, "stage": job.stage, "message": message}
    facts |= {"command": f"posttrain approve {job.run_id} {job.stage}"}
    _tell(store, job.run_id, f"waiting-{job.stage}{f'-{round(1000 * time.time())}' if again else ''}", "waiting", facts)


def tell_failure(store: Store, run_id: str, ended: float) -> None:
    """Tell that a run failed at `ended`, in seconds since the epoch; one that is resumed may fail again."""
    if not is_set():
        return
    from components.runtime.ledger.ledger import load_run

    with suppress(PosttrainError):
        run = load_run(store, run_id)
        failures = {name: failure["error"] for name, failure in run.failures.items()}
        facts = {"recipe": run.entry.get("recipe"), "failures": failures, "command": f"posttrain show {run_id}"}
        _tell(store, run_id, f"failed-{round(1000 * ended)}", "failed", facts)


def _tell(store: Store, run_id: str, name: str, event: str, facts: Mapping[str, Any]) -> None:
    if not is_set():
        return
    now = time.time()
    with suppress(PosttrainError):  # a store that is away fails the run elsewhere, and for a better reason
        if store.put(f"ledger/{run_id}/notices/{name}.json", {"time": now}):
            notify({"event": event, "run_id": run_id, "store": store.uri, "time": now, **facts})
