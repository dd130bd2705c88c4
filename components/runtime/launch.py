"""The launcher: the same eight steps for every job on every engine.

resolve inputs from the run ledger; compute the fingerprint; reuse what the action cache has; announce the job to
lineage; run the component, from its last partial checkpoint if there is one; pass the output gates; commit artifacts,
then the action record, then the ledger entry; close.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from components.contract.artifacts import ArtifactType, canonical_json
from components.contract.component import Component, Params
from components.contract.context import Input
from components.contract.errors import InputError, PosttrainError, StageFailed
from components.contract.job import Job
from components.contract.registry import components
from components.runtime.ends import MEMORY
from components.runtime.fingerprint import Fingerprint, fingerprint
from components.runtime.gates import GateProcess
from components.runtime.gating import Written, needs_data_gates, pass_data_gates, pass_metric_gates
from components.runtime.lineage.registry import register_model
from components.runtime.lineage.spool import Spool
from components.runtime.progress import Progress, Sink
from components.runtime.ranks import leading
from components.runtime.records import (
    action_key,
    failure_key,
    is_stored,
    output_record,
    producer_key,
    stage_entry,
    stage_key,
)
from components.runtime.resolve import Resolved, Upstream
from components.runtime.shortage import is_out_of_memory, what_to_turn
from components.runtime.stage import RunningStage
from components.runtime.store import Store, open_store

LOCK_WAIT_SECONDS = 7 * 24 * 3600.0
SHOWN_OF_AN_ERROR = 500


class Launch:
    """One job on its way through the eight steps."""

    def __init__(self, job: Job, sink: Sink, *, store: Store | None = None, gates_here: bool = False) -> None:
        self.job = job
        self.store = store or open_store(job.store)
        self.progress = Progress(job.stage, sink)
        self.spool = Spool(self.store, job.run_id)
        self.gates_here = gates_here  # the gates' library is imported already, so no worker need import it meanwhile
        self.component: Component = components().get(job.component)
        self.params = _parameters(self.component, job)
        self.upstream = Upstream(job, self.component, self.store)
        self.started = time.time()

    def reuse(self, *, here: bool = True) -> dict[str, Any] | None:
        """Settle the job without running anything, if it is done, skipped or cached; return its ledger entry.

        Returns None when the component has to run. Engines call it before they pay for a process or a pod; one whose
        environment has no stage's libraries says so by `here`, and gets None, too, where settling would need them.
        """
        done = self.store.get(stage_key(self.job.run_id, self.job.stage))
        if done and is_stored(self.store, done):
            self.spool.stage_finished(done)  # a kill may have come between the ledger entry and its event
            self._tell(done)
            return done
        skip = self.upstream.skip_reason()
        if skip:
            return self._close(status="skipped", cache="none", inputs={}, error=skip)
        if not here and self.upstream.imports():
            return None
        digests = self.upstream.resolve()
        mark = self._fingerprint(digests)
        action = self.store.get(action_key(mark.digest))
        if not here and action and self._asks_for_more(action):
            return None
        return self._record_hit(mark, digests, action) if action and is_stored(self.store, action) else None

    def run(self) -> dict[str, Any]:
        """Take the job through all eight steps and return its ledger entry.

        Raises InputError, GateFailed or StageFailed; the failure is recorded, and a rerun goes on from the last partial
        checkpoint. Two runs that reach the same fingerprint at once share one execution.
        """
        entry = self.reuse()
        if entry:
            return entry
        digests = self.upstream.resolve()
        mark = self._fingerprint(digests)
        with self.store.lock(f"job-{mark.digest}", wait_seconds=LOCK_WAIT_SECONDS):
            action = self.store.get(action_key(mark.digest))
            if action and is_stored(self.store, action):
                return self._record_hit(mark, digests, action)
            try:
                return self._execute(mark, digests)
            except Exception as error:  # the process boundary: whatever a stage raises becomes a recorded failure
                raise self._record_failure(error, mark.digest) from error

    def record_death(self, message: str) -> None:
        """Record a failure that the job's process could not record itself: it was killed, or took too long."""
        digests = self.upstream.resolve()
        if MEMORY in message:  # a remote model would have to be downloaded for its sizes
            inputs = () if "://" in self.store.uri else chain.from_iterable(self.upstream.fetch(digests).values())
            message = f"{message}; {what_to_turn(self.job, self.component, self.params, inputs)}"
        self._record_failure(StageFailed(message), self._fingerprint(digests).digest)

    def _fingerprint(self, digests: Resolved) -> Fingerprint:
        plain = {port: [digest for digest, _ in found] for port, found in digests.items()}
        return fingerprint(self.component, self.params, plain, self.job.seed, self.job.resources)

    def _execute(self, mark: Fingerprint, digests: Resolved) -> dict[str, Any]:
        inputs = self.upstream.fetch(digests)
        self.spool.stage_started(self.job, mark, inputs)
        with _scratch(self.store, mark.digest) as scratch:
            stage = RunningStage(
                self.job,
                self.component,
                self.params,
                fingerprint=mark.digest,
                inputs=inputs,
                store=self.store,
                spool=self.spool,
                progress=self.progress,
                scratch=scratch,
            )
            self.progress.send("started", fingerprint=mark.digest, resumed_from=stage.resumed_from)
            with GateProcess(needed=needs_data_gates(self.component), here=self.gates_here) as gates:
                self._run_component(stage, mark, digests)
                outputs = {port: Written(path, stage.metadata[port]) for port, path in stage.written().items()}
                gated = self._pass_data_gates(outputs, gates, scratch)
            gated |= pass_metric_gates(self.job, stage.headlines)
            stage.finish_log()
            return self._commit(stage, mark, inputs, gated)

    def _pass_data_gates(self, outputs: dict[str, Written], gates: GateProcess, scratch: Path) -> dict[str, Any]:
        where = {"store": self.store, "progress": self.progress, "reports": scratch / "gates"}
        return pass_data_gates(self.job, self.component, outputs, gates, **where)

    def _asks_for_more(self, action: dict[str, Any]) -> bool:
        return bool(self.job.expect) and action["expect"] != _expectations(self.job)

    def _recheck(self, action: dict[str, Any]) -> dict[str, Any]:
        """Return an earlier result's gates by this job's own: they may ask for more than those that it passed."""
        gated = {name: gate for name, gate in action["gates"].items() if gate["digest"]}
        if self._asks_for_more(action):
            made = action["outputs"].items()
            outputs = {port: Written(self.store.fetch(item["digest"]), item["metadata"]) for port, item in made}
            with (
                _scratch(self.store, f"gates-{action['fingerprint']}") as scratch,
                GateProcess(here=self.gates_here) as gates,
            ):
                gated = self._pass_data_gates(outputs, gates, scratch)
        return gated | pass_metric_gates(self.job, action["metrics"])

    def _run_component(self, stage: RunningStage, mark: Fingerprint, digests: Resolved) -> None:
        module, _, name = self.component.run.partition(":")
        function = getattr(importlib.import_module(module), name)
        order = {
            "fingerprint": mark.digest,
            "inputs": digests,
            "params": self.params.model_dump(mode="json"),
            "resumed_from": stage.resumed_from,
        }
        try:
            with leading(self.job, self.component, order, self.record_death, device=lambda: stage.device):
                function(stage)
        except Exception as error:
            if not is_out_of_memory(error) and MEMORY not in str(error):
                raise
            told = str(error) if isinstance(error, PosttrainError) else f"stage {self.job.stage!r}: {_one_line(error)}"
            turn = what_to_turn(self.job, self.component, self.params, stage.all_inputs())
            raise StageFailed(f"{told}; {turn}") from error
        except SystemExit as stop:  # its code may be 0, which would look like a stage that is done
            raise StageFailed(f"stage {self.job.stage!r}: {self.component.name} called exit({stop.code!r})") from stop
        missing = [port for port, info in self.component.outputs.items() if not info.optional]
        if missing := [port for port in missing if port not in stage.written()]:
            raise StageFailed(f"stage {self.job.stage!r}: {self.component.name} wrote no {', '.join(missing)}")

    def _commit(
        self, stage: RunningStage, mark: Fingerprint, inputs: dict[str, list[Input]], gated: dict[str, Any]
    ) -> dict[str, Any]:
        outputs: dict[str, Any] = {}
        for port, folder in stage.written().items():
            manifest = self.store.commit(self.component.outputs[port].type, folder, stage.metadata[port])
            outputs[port] = output_record(self.store, manifest)
            producer = {"fingerprint": mark.digest, "port": port}
            self.store.put(producer_key(manifest.digest, mark.digest), producer)
        action = {
            "fingerprint": mark.digest,
            "component": self.component.name,
            "parts": mark.parts,
            "outputs": outputs,
            "metrics": stage.headlines,
            "gates": gated,
            "expect": _expectations(self.job),
            "seconds": round(time.time() - self.started, 3),
            "run_id": self.job.run_id,
            "stage": self.job.stage,
        }
        self.store.put(action_key(mark.digest), action, overwrite=True)  # an earlier one may name outputs that are gone
        entry = self._close_with_action(action, "miss", inputs)
        self.store.drop_partial(mark.digest)
        return entry

    def _record_hit(self, mark: Fingerprint, digests: Resolved, action: dict[str, Any]) -> dict[str, Any]:
        inputs = self.upstream.describe(digests)
        try:
            action = {**action, "gates": self._recheck(action)}
        except PosttrainError as error:
            raise self._record_failure(error, mark.digest) from error
        mine = action["run_id"] == self.job.run_id and action["stage"] == self.job.stage
        if not mine:  # a kill between action record and ledger entry is this run's own work, not a cache hit
            self.spool.stage_started(self.job, mark, inputs)
        return self._close_with_action(action, "miss" if mine else "hit", inputs)

    def _close_with_action(self, action: dict[str, Any], cache: str, inputs: dict[str, list[Input]]) -> dict[str, Any]:
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
            **hit,
        )

    def _close(self, *, status: str, cache: str, inputs: dict[str, list[Input]], **fields: Any) -> dict[str, Any]:
        entry = stage_entry(
            self.job, status=status, cache=cache, started=self.started, ended=time.time(), inputs=inputs, **fields
        )
        key = stage_key(self.job.run_id, self.job.stage)
        if not self.store.put(key, entry):
            entry = self.store.get(key) or entry
        self.spool.stage_finished(entry)
        self._tell(entry)
        return entry

    def _tell(self, entry: dict[str, Any]) -> None:
        shown = {name: entry[name] for name in ("status", "cache", "metrics", "seconds")}
        self.progress.send("finished", **shown)

    def _record_failure(self, error: Exception, mark: str) -> PosttrainError:
        known = isinstance(error, PosttrainError)
        message = str(error) if known else _one_line(error)
        record = {
            "run_id": self.job.run_id,
            "stage": self.job.stage,
            "fingerprint": mark,
            "error": message,
            "time": time.time(),
        }
        self.store.put(failure_key(self.job.run_id, self.job.stage), record, overwrite=True)
        self.spool.stage_failed(self.job.stage, mark, message)
        self.progress.send("failed", error=message)
        return error if isinstance(error, PosttrainError) else StageFailed(f"stage {self.job.stage!r}: {message}")


@contextmanager
def _scratch(store: Store, mark: str) -> Iterator[Path]:
    """Yield an empty folder for the holder of a fingerprint's lock; what a killed holder left in it is removed.

    It lies inside a directory store, so that a commit can link files instead of copying them.
    """
    base = Path(tempfile.gettempdir()) / f"posttrain-{os.getuid()}" if "://" in store.uri else Path(store.uri)
    folder = base / "scratch" / mark
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _one_line(error: Exception) -> str:
    """Return what a stage raised as one line of bounded length; its log holds the whole with the traceback."""
    text = " ".join(str(error).split()) or "no message"
    return f"{type(error).__name__}: {text if len(text) <= SHOWN_OF_AN_ERROR else text[:SHOWN_OF_AN_ERROR] + '...'}"


def _expectations(job: Job) -> list[dict[str, Any]]:
    return [expectation.model_dump(mode="json") for expectation in job.expect]


def _parameters(component: Component, job: Job) -> Params:
    # mappings in one order, however they were written or stored: equal fingerprints stand for equal bytes
    params = json.loads(canonical_json(job.params))
    try:
        return component.params.model_validate(params)
    except ValidationError as error:
        lines = "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in error.errors())
        raise InputError(f"stage {job.stage!r} ({component.name}): {lines}") from error
