"""Keys and shapes of the records that a job writes to the store."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import Manifest
from components.contract.context import Input
from components.contract.job import Job
from components.runtime.system.code import code_version

if TYPE_CHECKING:
    from components.runtime.store import Store


class Cause(StrEnum):
    """Why a stage failed, by whether a retry of the same work may end differently."""

    REFUSED = "refused"
    """Bad input, or a failed gate."""
    SPENT = "spent"
    """The run has spent its budget."""
    REPEATED = "repeated"
    """It raised the same error again, from the same inputs, parameters and code."""
    CODE = "code"
    """An operator in the user's own file raised an error of logic, or returned what its slot cannot use."""
    RAISED = "raised"
    """It raised an error for the first time."""
    OUTSIDE = "outside"
    """It was killed, ran out of time, memory or disk, or could not reach or read what it needs."""


def action_key(fingerprint: str) -> str:
    """Return the key of a fingerprint's action."""
    return f"actions/{fingerprint}.json"


def run_key(run_id: str) -> str:
    """Return the key of the record of what a run was asked to do."""
    return f"ledger/{run_id}/run.json"


def end_key(run_id: str) -> str:
    """Return the key of the record of how a run ended."""
    return f"ledger/{run_id}/end.json"


def job_key(run_id: str, stage: str) -> str:
    """Return the key of a stage's job, for processes that find it by run and stage."""
    return f"ledger/{run_id}/jobs/{stage}.json"


def stage_key(run_id: str, stage: str) -> str:
    """Return the key of a stage's ledger entry: what it used and made."""
    return f"ledger/{run_id}/stages/{stage}.json"


def failure_key(run_id: str, stage: str) -> str:
    """Return the key of a stage's last failure in a run."""
    return f"ledger/{run_id}/failures/{stage}.json"


def alarms_key(run_id: str, stage: str) -> str:
    """Return the key of the alarms that a stage of a run raised."""
    return f"ledger/{run_id}/alarms/{stage}.json"


def producer_key(digest: str, fingerprint: str) -> str:
    """Return the key that leads from an artifact to an action that made it."""
    return f"producers/{digest}/{fingerprint}.json"


def approval_key(run_id: str, stage: str) -> str:
    """Return the key of a person's decision on a stage."""
    return f"approvals/{run_id}/{stage}.json"


def asked_key(run_id: str, stage: str) -> str:
    """Return the key of the approval request: when a person was first asked, and what."""
    return approval_key(run_id, f"{stage}.asked")


def utc(seconds: float) -> str:
    """Return a POSIX time as ISO 8601 in UTC."""
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="milliseconds")


def save_job(store: Store, job: Job) -> None:
    """Keep a job where `load_job` finds it."""
    store.put(job_key(job.run_id, job.stage), job.model_dump(mode="json"), overwrite=True)


def load_job(store: Store, run_id: str, stage: str) -> Job | None:
    """Return the job of a stage of a run, or None if the run has no such stage."""
    record = store.recover(job_key(run_id, stage))
    return Job.model_validate(record) if record else None


def output_record(store: Store, manifest: Manifest, verifiers: list[str] | None = None) -> dict[str, Any]:
    """Return an output artifact as ledger entries name it, with the verifiers that its rows name, if known.

    The verifiers are not part of the artifact's metadata, since they follow from its rows.
    """
    return {
        "type": str(manifest.type),
        "digest": manifest.digest,
        "uri": store.artifact_uri(manifest.digest),
        "size": manifest.size,
        "metadata": manifest.metadata,
        **({} if verifiers is None else {"verifiers": verifiers}),
    }


def is_stored(store: Store, record: dict[str, Any]) -> bool:
    """Return whether all outputs of an action or ledger entry are stored; a damaged one may have been set aside."""
    return all(store.has(output["digest"]) for output in record["outputs"].values())


def can_be_used(store: Store, record: dict[str, Any], tell: Callable[[str], None]) -> bool:
    """Return whether all outputs of an action or ledger entry are stored and pass a quick check.

    Damaged ones are set aside and reported to `tell`; intact ones are marked as used, which the collector respects.
    """
    found = [store.use(output["digest"], tell) for output in record["outputs"].values()]  # check all
    return all(found)


def stage_entry(
    job: Job,
    *,
    status: str,
    cache: str,
    started: float,
    ended: float,
    inputs: dict[str, list[Input]],
    **fields: Any,
) -> dict[str, Any]:
    """Return a ledger entry of one stage: what it used, made and measured, and how it ended."""
    entry: dict[str, Any] = {
        "run_id": job.run_id,
        "recipe": job.recipe,
        "stage": job.stage,
        "component": job.component,
        "status": status,
        "cache": cache,
        "fingerprint": None,
        "started": utc(started),
        "ended": utc(ended),
        "seconds": round(ended - started, 3),
        "params": job.params,
        "seed": job.seed,
        "labels": job.labels,
        "group": job.group,
        "inputs": {
            port: [{"type": str(item.type), "digest": item.digest, "source": item.source} for item in items]
            for port, items in inputs.items()
        },
        "outputs": {},
        "metrics": {},
        "gates": {},
        "code": code_version(),
        "error": None,
    }
    return entry | fields


def failure_in(entry: Mapping[str, Any]) -> str | None:
    """Return why a stage failed that its run went on without, by its ledger entry; None for every other end."""
    return str(entry["error"]) if entry.get("failed") else None


def how_it_ended(entry: Mapping[str, Any]) -> str:
    """Return in words why a stage gave nothing: it "failed" or "was skipped"."""
    return "failed" if entry.get("failed") else "was skipped"


def alarms_record(job: Job, fingerprint: str, alarms: list[dict[str, Any]], kept: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a stage's alarms, in the order in which they were raised.

    `kept` holds the outputs of a stage that an alarm ended: its history and its samples.
    """
    return {"run_id": job.run_id, "stage": job.stage, "fingerprint": fingerprint, "alarms": alarms, "kept": kept}


def expectations(job: Job) -> list[dict[str, Any]]:
    """Return a job's expectations on its rows, in the form that an action records."""
    return [expectation.model_dump(mode="json") for expectation in job.expect]
