"""Questions to a person before a stage: about which inputs, and what the run has shown so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.contract.expressions import Expression
from components.contract.headlines import in_order
from components.contract.job import Job, StageRef
from components.runtime.inputs.inputs import uri_digest
from components.runtime.inputs.resolve import Upstream
from components.runtime.ledger.records import run_key, stage_key

if TYPE_CHECKING:
    from components.runtime.store import Store

MAX_METRICS = 8
"""Metrics of a stage that a question shows, the most informative first."""


@dataclass(frozen=True)
class Question:
    """A job that asks a person, and the digests of the inputs that an answer is about."""

    job: Job
    inputs: dict[str, list[str]]


def asked_inputs(upstream: Upstream) -> dict[str, list[str]]:
    """Return port -> digests of the inputs; one that would have to be downloaded to have a digest is its URI.

    Raises as `Upstream.chosen` does.
    """
    store, job = upstream.store, upstream.job
    inputs: dict[str, list[str]] = {}
    for port, references in upstream.chosen().items():
        type = upstream.component.inputs[port].type
        inputs[port] = [
            upstream.made(ref)
            if isinstance(ref, StageRef)
            else uri_digest(store, ref.uri, type, job.endpoints) or ref.uri
            for ref in references
        ]
    return inputs


def seen_so_far(store: Store, job: Job) -> dict[str, Any]:
    """Return stage -> its headline metrics and gates, for the finished stages of the job's run.

    Metrics that the job's `when` looks at come first.
    """
    wanted = set(Expression(job.when).names) if job.when else set()
    seen: dict[str, Any] = {}
    planned = (store.recover(run_key(job.run_id)) or {}).get("stages", ())
    for stage in [stage["name"] for stage in planned] or job.after:
        entry = store.recover(stage_key(job.run_id, stage))
        if entry is None or entry["status"] != "done":
            continue
        metrics = in_order(entry["component"], entry["metrics"])
        first = [name for name in metrics if f"{stage}.{name}" in wanted]
        names = [*first, *(name for name in metrics if name not in first)][:MAX_METRICS]
        gates = {name: bool(gate["success"]) for name, gate in entry["gates"].items()}
        facts = {"metrics": {name: metrics[name] for name in names}, "gates": gates}
        if shown := {part: values for part, values in facts.items() if values}:
            seen[stage] = shown
    return seen
