"""Gates of a job: expectations on the rows of its outputs, and conditions on its own metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.artifacts import ArtifactType
from components.contract.component import Component
from components.contract.errors import GateFailed, InputError
from components.contract.expressions import Expression, Lookup, Value
from components.contract.job import Job
from components.runtime.gates import GateProcess
from components.runtime.job.progress import Progress
from components.runtime.store import Store

GATED = (ArtifactType.DATASET, ArtifactType.ROLLOUTS)


def needs_data_gates(component: Component) -> bool:
    """Return whether any output holds rows."""
    return any(port.type in GATED for port in component.outputs.values())


@dataclass(frozen=True)
class Written:
    """An output on disk, with its metadata."""

    folder: Path
    metadata: Mapping[str, Any]


def pass_data_gates(
    job: Job,
    component: Component,
    outputs: Mapping[str, Written],
    gates: GateProcess,
    *,
    store: Store,
    progress: Progress,
    reports: Path,
) -> dict[str, Any]:
    """Check the rows of every written Dataset and Rollouts output; store the evidence as Report artifacts.

    Returns port -> {"success", "digest", "failures"}. Raises GateFailed with all failures of all ports.
    """
    results: dict[str, Any] = {}
    failures: list[str] = []
    for port, written in outputs.items():
        type = component.outputs[port].type
        if type not in GATED:
            continue
        progress.send("gate", port=port)
        report = reports / port
        report.mkdir(parents=True)
        kind = "rollouts" if type == ArtifactType.ROLLOUTS else written.metadata.get("kind", "rows")
        own = [expectation for expectation in job.expect if expectation.port == port]
        result = gates.check(port, written.folder, kind, own, report)
        evidence = store.commit(ArtifactType.REPORT, report, {"gate": port})
        results[port] = {"success": result.success, "digest": evidence.digest, "failures": result.failures}
        failures += [] if result.success else [f"{port}: {text}" for text in result.failures]
    if failures:
        raise GateFailed(f"stage {job.stage!r}: data gate: " + "; ".join(failures))
    return results


def pass_metric_gates(job: Job, metrics: Mapping[str, float], others: Lookup) -> dict[str, Any]:
    """Check the recipe's `gate` conditions on the stage's own metrics; raise GateFailed with the values seen.

    `others` looks up what a gate compares them with: the metric "stage.metric" of an earlier stage.
    """

    def lookup(name: str) -> Value:
        if "." in name:
            return others(name)
        if name not in metrics:
            known = ", ".join(sorted(metrics))
            raise InputError(f"stage {job.stage!r}: gate on {name!r}, but it measured only {known}")
        return metrics[name]

    for text in job.gate:
        condition = Expression(text)
        if not condition.holds(lookup):
            seen = ", ".join(f"{name} = {lookup(name):.6g}" for name in condition.names)
            raise GateFailed(f"stage {job.stage!r}: gate {text!r} does not hold: {seen}")
    return {text: {"success": True, "digest": None, "failures": []} for text in job.gate}
