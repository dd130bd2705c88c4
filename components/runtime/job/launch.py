"""The launcher: the same eight steps for every job on every engine.

Resolve inputs from the run ledger; compute the fingerprint; reuse a result of the action cache; announce the job to
lineage; run the component, from its last partial checkpoint if there is one; pass the output gates; commit artifacts,
then the action record, then the ledger entry; close.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from components.contract.artifacts import canonical_json
from components.contract.component import Component
from components.contract.context import Input
from components.contract.errors import (
    InputError,
    Moved,
    NotFiniteError,
    PosttrainError,
    StageFailed,
    StoppedByAlarm,
    StoreUnavailable,
    schema_problems,
)
from components.contract.job import Job
from components.contract.memory import Moment
from components.contract.params import Params
from components.contract.registry import components
from components.contract.uploaded import use as use_uploads
from components.runtime.checkpoints.forks import Forked, begin_fork, check_fit, kept_for
from components.runtime.checkpoints.kept import Keeper
from components.runtime.checkpoints.marks import marked
from components.runtime.checkpoints.moves import State, arrived, check_work, refuse_moved, state_for
from components.runtime.checkpoints.rollback import PART as ROLLBACK
from components.runtime.checkpoints.rollback import return_to_before
from components.runtime.closure.walk import Closures
from components.runtime.costs.spending import Spending
from components.runtime.gates import GateProcess
from components.runtime.inputs.resolve import Resolved, Upstream
from components.runtime.inputs.settle import settle_in_run
from components.runtime.job.alarming import JobAlarms
from components.runtime.job.asking import Question, asked_inputs
from components.runtime.job.call import call
from components.runtime.job.closing import Closing
from components.runtime.job.explaining import explained
from components.runtime.job.gating import Written, needs_data_gates, pass_data_gates, pass_metric_gates
from components.runtime.job.licensing import of_artifact, of_folder, pass_input_licenses, pass_source_licenses
from components.runtime.job.metering import Meter
from components.runtime.job.other_sizes import other_size
from components.runtime.job.progress import Progress, Sink
from components.runtime.job.ranks import ranks_of
from components.runtime.job.scratch import scratch_folder
from components.runtime.job.shortage import means_shortage, what_to_turn
from components.runtime.job.stage import RunningStage
from components.runtime.ledger.approvals import approval_of
from components.runtime.ledger.fingerprint import Fingerprint, fingerprint, reads_objects
from components.runtime.ledger.operator_code import keep_code, use_code
from components.runtime.ledger.records import action_key, can_be_used, expectations, stage_key
from components.runtime.lineage.heal import read_or_heal
from components.runtime.lineage.spool import Spool
from components.runtime.store import Store, open_store

LOCK_WAIT_SECONDS = 7 * 24 * 3600.0


class Launch:
    """One job's pass through the eight steps."""

    def __init__(
        self,
        job: Job,
        sink: Sink,
        *,
        store: Store | None = None,
        gates_here: bool = False,
        log: str = "",
        own_process: bool = False,
        closures: Closures | None = None,
    ) -> None:
        """`log` says where the stage's output goes, if this process knows; `own_process`, that it is for this job.

        `closures` are what jobs that are looked at in the same moment share: each file is examined once.
        """
        self.log, self.own_process = log, own_process
        self.store = store or open_store(job.store)
        settled = settle_in_run(job, self.store)
        self.job = job = settled.job
        self.progress = Progress(job.stage, sink)
        self.spool = Spool(self.store, job.run_id)
        self.closing = Closing(job, self.store, self.spool, self.progress)
        use_code(self.store, job.code)
        use_uploads(job.uploaded, self.store.fetch_or_set_aside)
        self.gates_here = gates_here  # the gates' library is already imported, so no worker needs to import it
        component: Component = components().get(job.component)
        self.params = _parameters(component, job)
        self.component = component.formed(self.params)
        self.upstream = Upstream(job, self.component, self.store, skipped=settled.skipped)
        self.closures = closures or Closures()
        self.measured: dict[str, float] = {}
        self.handed_over: State | None = None
        """The state that the stage goes on with, of a run that moved here."""

    def reuse(self, *, here: bool = True) -> dict[str, Any] | None:
        """Settle the job without running anything if it is done, skipped or cached; return its ledger entry.

        Returns None when the component has to run, or a person has yet to approve it: a cached stage asks, too. Engines
        call it before they start a process or a pod. An engine whose environment lacks the stages' libraries passes
        here=False, and also gets None if settling needs them.
        """
        done = read_or_heal(self.store, stage_key(self.job.run_id, self.job.stage), self._warn)
        if done and can_be_used(self.store, done, self._warn):
            self._alarms(done["fingerprint"] or "").show_again()
            return self.closing.again(done)
        try:
            skip = self.upstream.skip_reason()
            if skip:
                return self.closing.skipped(skip)
            self.upstream.check_gates()
            if not self._approved():
                return None
            reads = self.job.uploaded or self.upstream.imports() or reads_objects(self.component, self.params)
            if not here and reads:
                return None
            digests = self.upstream.resolve()
            mark = self._fingerprint(digests)
        except InputError as error:  # a retry cannot help; the run's display shows why
            raise self.closing.failed(error, None) from error
        if not here and mark.incomplete:
            return None
        action = self._action(mark)
        if not here and action and self._asks_for_more(action):
            return None
        return self._record_hit(mark, digests, action) if action else None

    def question(self) -> Question | None:
        """Return what a person is asked before the job, answered or not; None for one that asks nobody.

        Call it where `reuse` gave None: a job that is done, skipped or blocked has nothing to ask.
        """
        return Question(self.job, asked_inputs(self.upstream)) if self.job.approve else None

    def _approved(self) -> bool:
        """Return whether nobody has to be asked, or a person approved the job with the inputs that it has now."""
        if self.job.approve is None:
            return True
        approval = approval_of(self.store, self.job.run_id, self.job.stage, asked_inputs(self.upstream))
        self.closing.approval = approval
        return approval is not None

    def run(self) -> dict[str, Any]:
        """Take the job through all eight steps and return its ledger entry.

        Raises InputError, GateFailed or StageFailed; the failure is recorded, and a rerun continues from the last
        partial checkpoint. Two runs that reach the same fingerprint at once share one execution. What the attempt
        takes, waiting for the other one included, is recorded whatever becomes of it.
        """
        processes = ranks_of(self.job, self.component)
        meter = Meter(self.store, self.job, processes=processes, own_process=self.own_process)
        with meter as self.closing.meter:
            return self._run()

    def _run(self) -> dict[str, Any]:
        entry = self.reuse()
        if entry:
            return entry
        if not self._approved():
            raise self.closing.failed(InputError(f"stage {self.job.stage!r} waits for an approval of its inputs"), None)
        digests = self.upstream.resolve()
        mark = self._fingerprint(digests)
        with self.store.lock(f"job-{mark.digest}", wait_seconds=LOCK_WAIT_SECONDS):
            action = self._action(mark)
            if action:
                return self._record_hit(mark, digests, action)
            try:
                refuse_moved(self.store, self.job.run_id, self.job.stage)
                Spending(self.store, self.job).end("does not begin")
                return self._execute(mark, digests)
            except Moved as error:
                self.closing.left(error)
                raise
            except Exception as error:  # the process boundary: whatever a stage raises becomes a recorded failure
                raise self.closing.failed(error, mark.digest, self.measured) from error

    def record_death(self, message: str) -> str:
        """Record a failure that the job's process could not record itself: it was killed, or timed out.

        Returns the recorded message, with the settings to change if memory ran out.
        """
        digests = self.upstream.resolve()
        if means_shortage(message):
            message = f"{message}; {self._what_to_turn(digests, message)}"
        self.closing.failed(StageFailed(message), self._fingerprint(digests).digest, died=True)
        return message

    def _action(self, mark: Fingerprint) -> dict[str, Any] | None:
        """Return the action cache's record for a fingerprint, if all of it can be used."""
        key = action_key(mark.digest)
        action = read_or_heal(self.store, key, self._warn)
        if not action or not can_be_used(self.store, action, self._warn):
            return None
        self.store.blobs.touch(key)  # the garbage collector spares recently used records
        return action

    def _warn(self, text: str) -> None:
        self.progress.send("warning", text=text, kept=True)

    def _fingerprint(self, digests: Resolved) -> Fingerprint:
        plain = {port: [digest for digest, _ in found] for port, found in digests.items()}
        ports = self.component.verifies(self.params) if self.component.verifies else ()
        mark = fingerprint(
            self.component,
            self.params,
            plain,
            self.job.seed,
            self.job.resources,
            verifiers=self.upstream.verifiers(digests, ports),
            closures=self.closures,
        )
        return marked(self.store, self.job, self.component, mark)

    def _execute(self, mark: Fingerprint, digests: Resolved) -> dict[str, Any]:
        self.handed_over = state_for(self.store, self.job)
        if self.handed_over is not None:  # before its inputs are fetched
            check_work(self.store, self.job, self.handed_over, mark)
        inputs = self.upstream.fetch(digests, self._warn)
        pass_input_licenses(self.job, inputs, self.store)  # before anything is spent on them
        keep_code(self.store, self.job.code)  # rows that the stage writes may name it
        self.spool.stage_started(self.job, mark, inputs)
        alarms = self._alarms(mark.digest)
        with scratch_folder(self.store, mark.digest) as scratch:
            forked = self._begin_fork(mark, digests, scratch)
            with GateProcess(needed=needs_data_gates(self.component), here=self.gates_here) as gates:
                stage = self._run_stage(mark, digests, inputs, alarms, scratch)
                outputs = {port: Written(path, stage.metadata[port]) for port, path in stage.written().items()}
                gated = self._pass_data_gates(outputs, gates, scratch)
            gated |= pass_metric_gates(self.job, stage.headlines, self.upstream.metric)
            gated |= pass_source_licenses(self.job, of_folder(stage.outputs / "dataset"))
            stage.finish_log()
            further = alarms.to_action() | ({"fork": forked.to_record()} if forked else {})
            further |= {ROLLBACK: stage.returned} if stage.returned else {}
            return self.closing.commit(stage, self.component, mark, inputs, gated, further)

    def _run_stage(
        self, mark: Fingerprint, digests: Resolved, inputs: dict[str, list[Input]], alarms: JobAlarms, scratch: Path
    ) -> RunningStage:
        """Run the component; where an alarm returns it to a checkpoint, once more, to end there."""
        stage = self._stage(mark, inputs, alarms, scratch)
        try:
            with closing(stage):
                self._run_watched(stage, mark, digests, alarms)
            return stage
        except StoppedByAlarm:
            if self.job.on_alarm != ROLLBACK:
                raise
        alarm = alarms.earliest()
        step = return_to_before(alarm, self.store, mark.digest, self.job.stage, scratch / "return", self._warn)
        self._warn(f"alarm {alarm['name']}: the stage returns to its checkpoint of step {step}, and ends there")
        stage = self._stage(mark, inputs, alarms, scratch / "returned")
        with closing(stage):
            self._run_watched(stage, mark, digests, alarms)
        return stage

    def _stage(
        self, mark: Fingerprint, inputs: dict[str, list[Input]], alarms: JobAlarms, scratch: Path
    ) -> RunningStage:
        return RunningStage(
            self.job,
            self.component,
            self.params,
            fingerprint=mark.digest,
            inputs=inputs,
            store=self.store,
            spool=self.spool,
            progress=self.progress,
            scratch=scratch,
            on_row=alarms.take,
            reasons=alarms.reasons,
            keeper=Keeper(self.store, self.job, mark),
        )

    def _begin_fork(self, mark: Fingerprint, digests: Resolved, scratch: Path) -> Forked | None:
        """Give a fork the checkpoint that it goes on from; None for other jobs. Raises InputError if it cannot."""
        if self.job.fork is None:
            return None
        forked = kept_for(self.store, self.job.fork, self.job.stage)
        names = {port: source.rpartition(".")[0] for port, found in digests.items() for _, source in found[:1]}
        check_fit(self.store, forked, self.component, self.params, mark.parts, names)
        begin_fork(self.store, forked, mark, scratch / "fork", self._warn)
        return forked

    def _started(self, stage: RunningStage, mark: Fingerprint, alarms: JobAlarms) -> None:
        """Tell that the component begins, and from which checkpoint.

        Raises StoreUnavailable for a fork without one: it must not do the steps before with its own parameters.
        """
        if self.job.fork is not None and stage.resumed_from is None:
            raise StoreUnavailable(
                "the checkpoint that the fork goes on from was damaged; run again: it is copied anew"
            )
        self.measured = stage.headlines
        here = (stage.resumed_from, stage.resumed_digest)
        told = arrived(self.job, self.handed_over, *here, self._warn) if self.handed_over else {}
        self.progress.send("started", fingerprint=mark.digest, resumed_from=stage.resumed_from, **told)
        fresh = stage.resumed_from is None and "trainer" in self.component.backends
        if fresh and (said := other_size(self.store, mark)):
            self._warn(said)
        if stage.returned:
            alarms.returned(**stage.returned)
        alarms.restore(stage.history(), stage.lost)

    def _alarms(self, digest: str) -> JobAlarms:
        where = {"store": self.store, "spool": self.spool, "progress": self.progress}
        return JobAlarms(self.job, self.component, self.params, digest, **where)

    def _run_watched(self, stage: RunningStage, mark: Fingerprint, digests: Resolved, alarms: JobAlarms) -> None:
        """Run the component; of one that an alarm ended, keep what is needed to look at it."""
        try:
            self._run_component(stage, mark, digests, partial(self._started, stage, mark, alarms))
        except (StoppedByAlarm, NotFiniteError) as error:
            ending = alarms.of_error(error, stage.history())
            stage.finish_log()
            alarms.keep(stage)
            if ending is error:
                raise
            raise ending from error

    def _pass_data_gates(self, outputs: dict[str, Written], gates: GateProcess, scratch: Path) -> dict[str, Any]:
        where = {"store": self.store, "progress": self.progress, "reports": scratch / "gates"}
        return pass_data_gates(self.job, self.component, outputs, gates, **where)

    def _asks_for_more(self, action: dict[str, Any]) -> bool:
        return bool(self.job.expect) and action["expect"] != expectations(self.job)

    def _recheck(self, action: dict[str, Any], inputs: dict[str, list[Input]]) -> dict[str, Any]:
        """Return the results of this job's gates on an earlier result: they may be stricter than those it passed."""
        gated = {name: gate for name, gate in action["gates"].items() if gate["digest"]}
        if self._asks_for_more(action):
            made = action["outputs"].items()
            outputs = {port: Written(self.store.fetch(item["digest"]), item["metadata"]) for port, item in made}
            with (
                scratch_folder(self.store, f"gates-{action['fingerprint']}") as scratch,
                GateProcess(here=self.gates_here) as gates,
            ):
                gated = self._pass_data_gates(outputs, gates, scratch)
        card = of_artifact(self.store, action["outputs"].get("dataset", {}).get("digest"))
        gated |= pass_input_licenses(self.job, inputs, self.store) | pass_source_licenses(self.job, card)
        return gated | pass_metric_gates(self.job, action["metrics"], self.upstream.metric)

    def _run_component(
        self, stage: RunningStage, mark: Fingerprint, digests: Resolved, on_start: Callable[[], None]
    ) -> None:
        params = self.params.model_dump(mode="json")
        order = {"fingerprint": mark.digest, "inputs": digests, "params": params}
        try:
            call(stage, self.component, self.job, order, on_start, self.record_death)
        except Exception as error:
            raise explained(error, self.job, self.log, partial(self._what_to_turn, digests)) from error

    def _what_to_turn(self, digests: Resolved, said: str, moment: Moment | None = None) -> str:
        return what_to_turn(self.job, self.component, self.params, self.store, digests, said, moment)

    def _record_hit(self, mark: Fingerprint, digests: Resolved, action: dict[str, Any]) -> dict[str, Any]:
        inputs = self.upstream.describe(digests)
        try:
            self._alarms(mark.digest).of_action(action)
            action = {**action, "gates": self._recheck(action, inputs)}
        except PosttrainError as error:
            raise self.closing.failed(error, mark.digest, action["metrics"]) from error
        mine = action["run_id"] == self.job.run_id and action["stage"] == self.job.stage
        if not mine:  # a kill between action record and ledger entry is this run's own work, not a cache hit
            self.spool.stage_started(self.job, mark, inputs)
        return self.closing.done(action, "miss" if mine else "hit", inputs)


def _parameters(component: Component, job: Job) -> Params:
    # mappings in canonical order, however they were written or stored: equal fingerprints mean equal bytes
    params = json.loads(canonical_json(job.params))
    try:
        return component.settled(component.params.model_validate(params), job.resources)
    except ValidationError as error:
        raise InputError(f"stage {job.stage!r} ({component.name}): {schema_problems(error)}") from error
