"""What a job depends on: the ledger entries of earlier stages, and artifacts from outside the run."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from components.contract.artifacts import ArtifactType
from components.contract.component import Component
from components.contract.context import Input
from components.contract.errors import InputError, StageFailed
from components.contract.expressions import Expression, Value
from components.contract.job import FirstOf, Job, StageRef, UriRef
from components.runtime.closure.rows import named_verifiers, union
from components.runtime.inputs.choice import Choice, State, choose
from components.runtime.inputs.inputs import import_uri, is_outside
from components.runtime.ledger.records import how_it_ended, stage_key
from components.runtime.lineage.heal import read_or_heal
from components.runtime.store import Store

Resolved = dict[str, list[tuple[str, str]]]
"""Port -> [(digest, source)]."""


class Upstream:
    """A run's ledger as read by one of its jobs."""

    def __init__(self, job: Job, component: Component, store: Store, *, skipped: str | None = None) -> None:
        """`job` has its settings from the ledger; `skipped` says why it is skipped where one was skipped."""
        self.job, self.component, self.store = job, component, store
        self._skipped = skipped

    def skip_reason(self) -> str | None:
        """Return why the job is skipped in this run, or None: a skipped input, or a `when` that does not hold."""
        if self._skipped:
            return self._skipped
        if skipped := self._choice.skipped_by:
            port, stages = skipped
            which = f"which {how_it_ended(self._entry(stages[0]))}" if len(stages) == 1 else "none of which gave it"
            return f"its input {port} comes from {' or '.join(stages)}, {which}"
        if self.job.when is None:
            return None
        condition = Expression(self.job.when)
        stages = {name.partition(".")[0] for name in condition.names}
        if skipped := sorted(name for name in stages if self._entry(name)["status"] == "skipped"):
            return f"when {self.job.when!r}: {skipped[0]} {how_it_ended(self._entry(skipped[0]))}"
        return None if condition.holds(self.metric) else f"when {self.job.when!r} does not hold"

    def check_gates(self) -> None:
        """Raise InputError for a gate on a stage that was skipped: before the work, since it could never be judged."""
        for text in self.job.gate:
            for name in Expression(text).names:
                stage, dot, _ = name.partition(".")
                if dot and self._entry(stage)["status"] == "skipped":
                    how = how_it_ended(self._entry(stage))
                    raise InputError(f"stage {self.job.stage!r}: gate {text!r} looks at {stage}, which {how}")

    def imports(self) -> bool:
        """Return whether an input is imported from outside the store."""
        refs = [ref for refs in self.chosen().values() for ref in refs]
        return any(not isinstance(ref, StageRef) and is_outside(ref.uri) for ref in refs)

    def chosen(self) -> dict[str, list[StageRef | UriRef]]:
        """Return what each port takes, fallbacks decided by the run's ledger; ports that take nothing are left out.

        Raises StageFailed if an earlier stage has not ended, InputError if one ran and made nothing for a port.
        """
        if self._choice.missing:
            port, ref = self._choice.missing
            raise InputError(
                f"stage {self.job.stage!r}: {ref.stage} ran and made no {ref.port} for the input {port}; a fallback in "
                f"the recipe, [{ref.stage}.{ref.port}, none] where it can do without, says what to take then"
            )
        left = self._choice.left.items()  # all stages have ended: nothing is undecided
        return {port: [ref for ref in refs if not isinstance(ref, FirstOf)] for port, refs in left}

    def resolve(self) -> Resolved:
        """Return the digests for each port; URIs are imported into the store. Raises as `chosen` does."""
        return {port: [self._resolved(port, ref) for ref in refs] for port, refs in self.chosen().items()}

    def made(self, ref: StageRef) -> str:
        """Return the digest of what an earlier stage made; raise StageFailed if it has not ended."""
        return str(self._entry(ref.stage)["outputs"][ref.port]["digest"])

    def verifiers(self, resolved: Resolved, ports: Iterable[str]) -> list[str] | None:
        """Return the verifiers that the rows of these ports name; None if not all of them are known."""
        found = [item for port in ports for item in resolved.get(port, ())]
        return union(self._named(digest, source) for digest, source in found)

    def metric(self, name: str) -> Value:
        """Return the metric "stage.metric" of an earlier stage of this run."""
        stage, _, metric = name.partition(".")
        metrics = self._entry(stage)["metrics"]
        if metric not in metrics:
            raise InputError(f"stage {self.job.stage!r}: {stage} measured no {metric!r} (it has: {', '.join(metrics)})")
        return metrics[metric]

    def describe(self, resolved: Resolved) -> dict[str, list[Input]]:
        """Return the inputs for lineage, without fetching their files."""
        return {port: [self._input(*item, Path()) for item in found] for port, found in resolved.items()}

    def fetch(self, resolved: Resolved, tell: Callable[[str], None]) -> dict[str, list[Input]]:
        """Return the inputs with their verified files on local disk; a damaged one is set aside before it raises."""
        return {
            port: [self._input(digest, source, self.store.fetch_or_set_aside(digest, tell)) for digest, source in found]
            for port, found in resolved.items()
        }

    @cached_property
    def _choice(self) -> Choice:
        return choose(self.job.inputs, self.component, self._state)

    def _state(self, ref: StageRef) -> State:
        entry = self._entry(ref.stage)
        if entry["status"] == "skipped":
            return State.SKIPPED
        return State.THERE if ref.port in entry["outputs"] else State.MISSING

    def _resolved(self, port: str, ref: StageRef | UriRef) -> tuple[str, str]:
        if isinstance(ref, StageRef):
            return self.made(ref), f"{ref.stage}.{ref.port}"
        return self._outside(ref.uri, self.component.inputs[port].type), ref.uri

    def _named(self, digest: str, source: str) -> list[str] | None:
        refs = [ref for refs in self.chosen().values() for ref in refs if isinstance(ref, StageRef)]
        if made := next((ref for ref in refs if f"{ref.stage}.{ref.port}" == source), None):
            return self._entry(made.stage)["outputs"][made.port].get("verifiers")
        return named_verifiers(self.store.fetch(digest)) if is_outside(source) else None

    def _outside(self, uri: str, type: ArtifactType) -> str:
        digest = import_uri(self.store, uri, type, self.job.endpoints)
        if not self.store.use(digest):
            raise InputError(f"input {uri}: its artifact {digest[:12]} is damaged or gone; make it again by its recipe")
        return digest

    def _entry(self, stage: str) -> dict[str, Any]:
        entry = read_or_heal(self.store, stage_key(self.job.run_id, stage))
        if entry is None:
            raise StageFailed(f"stage {self.job.stage!r} needs {stage!r}, which has not ended in run {self.job.run_id}")
        return entry

    def _input(self, digest: str, source: str, path: Path) -> Input:
        manifest = self.store.manifest(digest)
        return Input(type=manifest.type, digest=digest, path=path, metadata=manifest.metadata, source=source)
