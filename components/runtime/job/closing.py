"""The end of a job: its outputs or its failure go to the store, the ledger and lineage, in that order."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from components.contract.artifacts import ArtifactType
from components.contract.component import Component
from components.contract.context import Input
from components.contract.errors import (
    BudgetSpent,
    CorruptArtifact,
    GateFailed,
    InputError,
    Moved,
    OperatorFailed,
    PosttrainError,
    StageFailed,
    StoreUnavailable,
)
from components.contract.job import Job
from components.runtime.closure.rows import HOLDS_ROWS, named_verifiers
from components.runtime.costs.attempts import End, attempts_of, note_end
from components.runtime.job.metering import Meter
from components.runtime.job.progress import Progress
from components.runtime.job.stage import RunningStage
from components.runtime.ledger.fingerprint import Fingerprint
from components.runtime.ledger.records import (
    Cause,
    action_key,
    expectations,
    failure_key,
    output_record,
    producer_key,
    stage_entry,
    stage_key,
)
from components.runtime.lineage.registry import register_model
from components.runtime.lineage.spool import NO_FINGERPRINT, Spool
from components.runtime.store import Store
from components.runtime.store.answers import drop_answers

SHOWN_OF_AN_ERROR = 500


class Closing:
    """Writes a job's records; after a kill between any two of them, a rerun completes them."""

    def __init__(self, job: Job, store: Store, spool: Spool, progress: Progress) -> None:
        self.job, self.store, self.spool, self.progress = job, store, spool, progress
        self.started = time.time()
        self.meter: Meter | None = None
        """Of the attempt that this process makes, if it makes one."""
        self.approval: dict[str, Any] | None = None
        """Who approved the job, when and on what grounds, if a person had to."""

    def commit(
        self,
        stage: RunningStage,
        component: Component,
        mark: Fingerprint,
        inputs: dict[str, list[Input]],
        gated: dict[str, Any],
        further: dict[str, Any],
    ) -> dict[str, Any]:
        """Store a stage's outputs, then the action record, then the ledger entry; return the entry.

        `further` goes into the action, for those who reuse it: alarms, and the fork that the stage is.
        """
        outputs: dict[str, Any] = {}
        for port, folder in stage.written().items():
            type = component.outputs[port].type
            verifiers = named_verifiers(folder) if type in HOLDS_ROWS else None
            manifest = self.store.commit(type, folder, stage.metadata[port])
            outputs[port] = output_record(self.store, manifest, verifiers)
            producer = {"fingerprint": mark.digest, "port": port}
            self.store.put(producer_key(manifest.digest, mark.digest), producer)
        action = {
            "fingerprint": mark.digest,
            "component": component.name,
            "parts": mark.parts,
            "outputs": outputs,
            "metrics": stage.headlines,
            "gates": gated,
            "expect": expectations(self.job),
            "seconds": round(stage.seconds, 3),
            "machine": stage.machine(),
            "run_id": self.job.run_id,
            "stage": self.job.stage,
            **further,
        }
        self.store.put(action_key(mark.digest), action, overwrite=True)  # an earlier one may name outputs that are gone
        entry = self.done(action, "miss", inputs)
        self.store.partials(mark.digest).drop()
        drop_answers(self.store, mark.digest)
        return entry

    def done(self, action: dict[str, Any], cache: str, inputs: dict[str, list[Input]]) -> dict[str, Any]:
        """Close a job with a result, its own (`cache` miss) or an earlier one (hit); return its ledger entry."""
        for output in action["outputs"].values():
            if self.job.register_as and output["type"] == ArtifactType.MODEL:
                register_model(
                    self.store,
                    self.job.register_as,
                    output["digest"],
                    run_id=self.job.run_id,
                    stage=self.job.stage,
                    metrics=action["metrics"],
                    aliases=self.job.register_aliases,
                    reused=cache == "hit",
                )
        hit = {"produced_by": {"run_id": action["run_id"], "stage": action["stage"]}} if cache == "hit" else {}
        return self._close(
            status="done",
            cache=cache,
            inputs=inputs,
            fingerprint=action["fingerprint"],
            outputs=action["outputs"],
            metrics=action["metrics"],
            gates=action["gates"],
            **({"machine": action["machine"]} if "machine" in action else {}),  # older ones have none
            **({"fork": action["fork"]} if "fork" in action else {}),
            **({"approval": self.approval} if self.approval else {}),
            **hit,
            **({} if hit else {"seconds": action["seconds"]}),
        )

    def skipped(self, reason: str) -> dict[str, Any]:
        """Close a job that does not run; return its ledger entry."""
        return self._close(status="skipped", cache="none", inputs={}, error=reason)

    def left_out(self, reason: str) -> dict[str, Any]:
        """Close a job that has failed for good and that its run goes on without; return its ledger entry.

        To later stages it is a skipped one. A new run tries it again. What the last attempt recorded of its failure
        is told, else `reason`.
        """
        failure = self.store.get(failure_key(self.job.run_id, self.job.stage)) or {"error": reason}
        mark = failure.get("fingerprint")
        told = {"error": failure["error"], "fingerprint": None if mark == NO_FINGERPRINT else mark}
        tried = attempts_of(self.store, self.job.run_id, self.job.stage)[0].get(self.job.stage, ())
        seconds = round(sum(attempt.seconds for attempt in tried), 3)
        return self._close(status="skipped", cache="none", inputs={}, failed=True, seconds=seconds, **told)

    def again(self, entry: dict[str, Any]) -> dict[str, Any]:
        """Publish the end of a job again: a kill may have come between the ledger entry and its event."""
        self._end_attempt("succeeded")
        self.spool.stage_finished(entry)
        shown = {name: entry[name] for name in ("status", "cache", "metrics", "seconds")}
        shown |= {"reason": entry["error"]} if entry["status"] == "skipped" else {}
        shown |= {"failed": True} if entry.get("failed") else {}
        self.progress.send("finished", **shown)
        return entry

    def failed(
        self,
        error: Exception,
        mark: str | None,
        metrics: Mapping[str, float] | None = None,
        *,
        died: bool = False,
    ) -> PosttrainError:
        """Record a failure of the job with fingerprint `mark` (None: not known yet) and its metrics so far.

        `died`: the job's process was ended from outside, killed or timed out. Returns the error to raise.
        """
        message = str(error) if isinstance(error, PosttrainError) else one_line(error)
        record = {
            "run_id": self.job.run_id,
            "stage": self.job.stage,
            "fingerprint": mark,
            "error": message,
            "cause": Cause.OUTSIDE if died else self._cause(error, message, mark),
            **({"edit": error.edit} if isinstance(error, OperatorFailed) and error.edit else {}),
            "metrics": dict(metrics or {}),
            "time": time.time(),
        }
        if died:
            with suppress(PosttrainError):  # a store that is away takes no record of the failure either
                note_end(self.store, self.job.run_id, self.job.stage, "killed")
        self._end_attempt("killed" if died else "failed")
        self.store.put(failure_key(self.job.run_id, self.job.stage), record, overwrite=True)
        self.spool.stage_failed(self.job.stage, mark, message)
        self.progress.send("failed", error=message)
        return error if isinstance(error, PosttrainError) else StageFailed(f"stage {self.job.stage!r}: {message}")

    def left(self, error: Moved) -> None:
        """Note that the job ended, or did not begin, since its run goes on elsewhere: that is no failure."""
        self._end_attempt("stopped")
        self.progress.send("left", error=str(error))

    def _cause(self, error: Exception, message: str, mark: str | None) -> Cause:
        """Return the cause of the failure, which decides whether a retry may help."""
        if isinstance(error, OperatorFailed) and error.edit:
            return Cause.CODE
        if isinstance(error, BudgetSpent):
            return Cause.SPENT
        if isinstance(error, InputError | GateFailed):
            return Cause.REFUSED
        about_a_path = isinstance(error, FileNotFoundError | FileExistsError | IsADirectoryError | NotADirectoryError)
        if isinstance(error, OperatorFailed) and error.raised is not None:
            error = error.raised if isinstance(error.raised, Exception) else error
        if isinstance(error, OSError | MemoryError | StoreUnavailable | CorruptArtifact) and not about_a_path:
            return Cause.OUTSIDE
        before: dict[str, Any] | None = None
        with suppress(PosttrainError):  # a damaged record is no evidence
            before = self.store.get(failure_key(self.job.run_id, self.job.stage))
        same = before is not None and (before.get("fingerprint"), before.get("error")) == (mark, message)
        return Cause.REPEATED if same else Cause.RAISED

    def _close(self, *, status: str, cache: str, inputs: dict[str, list[Input]], **fields: Any) -> dict[str, Any]:
        entry = stage_entry(
            self.job, status=status, cache=cache, started=self.started, ended=time.time(), inputs=inputs, **fields
        )
        key = stage_key(self.job.run_id, self.job.stage)
        self._end_attempt("succeeded")  # before its event, which tells of the cost
        if not self.store.put(key, entry):
            held = self.store.get(key) or entry
            if held["outputs"] == entry["outputs"]:
                entry = held
            else:  # its artifacts are gone, and were made anew with other bytes
                self.store.put(key, entry, overwrite=True)
        return self.again(entry)

    def _end_attempt(self, end: End) -> None:
        if self.meter is not None:
            self.meter.end(end)


def one_line(error: Exception) -> str:
    """Return a stage's error as one line of bounded length; its log has the full text with the traceback."""
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text if len(text) <= SHOWN_OF_AN_ERROR else text[:SHOWN_OF_AN_ERROR] + '...'}"
