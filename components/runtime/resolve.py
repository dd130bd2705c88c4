"""What a job stands on: the ledger entries of earlier stages, and artifacts from outside the run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from components.contract.component import Component
from components.contract.context import Input
from components.contract.errors import InputError, StageFailed
from components.contract.expressions import Expression, Value
from components.contract.job import Job, StageRef
from components.runtime.closure.rows import named_verifiers, union
from components.runtime.inputs import import_uri, is_outside
from components.runtime.records import stage_key
from components.runtime.store import Store

Resolved = dict[str, list[tuple[str, str]]]
"""Port -> [(digest, source)]."""


class Upstream:
    """The ledger of a run as one of its jobs reads it."""

    def __init__(self, job: Job, component: Component, store: Store) -> None:
        self.job, self.component, self.store = job, component, store

    def skip_reason(self) -> str | None:
        """Return why the job does not run in this run: a skipped input, or a `when` that does not hold."""
        for port, refs in self.job.inputs.items():
            declared = self.component.inputs[port]
            for ref in refs:
                needed = isinstance(ref, StageRef) and not (declared.optional or declared.many)
                if needed and self._entry(ref.stage)["status"] == "skipped":
                    return f"its input {port} comes from {ref.stage}, which was skipped"
        if self.job.when is None:
            return None
        condition = Expression(self.job.when)
        stages = {name.partition(".")[0] for name in condition.names}
        if skipped := sorted(name for name in stages if self._entry(name)["status"] == "skipped"):
            return f"when {self.job.when!r}: {skipped[0]} was skipped"
        return None if condition.holds(self._metric) else f"when {self.job.when!r} does not hold"

    def imports(self) -> bool:
        """Return whether an input is brought in from outside of the store."""
        refs = [ref for refs in self.job.inputs.values() for ref in refs]
        return any(not isinstance(ref, StageRef) and is_outside(ref.uri) for ref in refs)

    def resolve(self) -> Resolved:
        """Return the digests behind each port; what a URI names is brought into the store.

        Raises StageFailed when an earlier stage has not ended, or made nothing for a port that needs it.
        """
        return {port: self._port(port, refs) for port, refs in self.job.inputs.items()}

    def verifiers(self, resolved: Resolved, ports: Iterable[str]) -> list[str] | None:
        """Return the verifiers that the rows behind these ports name; None where not all of them are known."""
        found = [item for port in ports for item in resolved.get(port, ())]
        return union(self._named(digest, source) for digest, source in found)

    def describe(self, resolved: Resolved) -> dict[str, list[Input]]:
        """Return the inputs for lineage, their files not fetched."""
        return {port: [self._input(*item, Path()) for item in found] for port, found in resolved.items()}

    def fetch(self, resolved: Resolved) -> dict[str, list[Input]]:
        """Return the inputs with their verified files on local disk."""
        return {
            port: [self._input(digest, source, self.store.fetch(digest)) for digest, source in found]
            for port, found in resolved.items()
        }

    def _port(self, port: str, refs: list[Any]) -> list[tuple[str, str]]:
        declared = self.component.inputs[port]
        found = []
        for ref in refs:
            if isinstance(ref, StageRef):
                output = self._entry(ref.stage)["outputs"].get(ref.port)
                if output:
                    found.append((output["digest"], f"{ref.stage}.{ref.port}"))
            else:
                found.append((import_uri(self.store, ref.uri, declared.type), ref.uri))
        if not found and not (declared.optional or declared.many):
            raise StageFailed(f"stage {self.job.stage!r}: nothing was made for its input {port!r}")
        return found

    def _named(self, digest: str, source: str) -> list[str] | None:
        refs = [ref for refs in self.job.inputs.values() for ref in refs if isinstance(ref, StageRef)]
        if made := next((ref for ref in refs if f"{ref.stage}.{ref.port}" == source), None):
            return self._entry(made.stage)["outputs"][made.port].get("verifiers")
        return named_verifiers(self.store.fetch(digest)) if is_outside(source) else None

    def _entry(self, stage: str) -> dict[str, Any]:
        entry = self.store.get(stage_key(self.job.run_id, stage))
        if entry is None:
            raise StageFailed(f"stage {self.job.stage!r} needs {stage!r}, which has not ended in run {self.job.run_id}")
        return entry

    def _metric(self, name: str) -> Value:
        stage, _, metric = name.partition(".")
        metrics = self._entry(stage)["metrics"]
        if metric not in metrics:
            raise InputError(f"stage {self.job.stage!r}: {stage} measured no {metric!r} (it has: {', '.join(metrics)})")
        return metrics[metric]

    def _input(self, digest: str, source: str, path: Path) -> Input:
        manifest = self.store.manifest(digest)
        return Input(type=manifest.type, digest=digest, path=path, metadata=manifest.metadata, source=source)
