"""Spool: a queue in the store of lineage events for the tracking server.

Jobs and engines only write here: importing MLflow takes seconds, and its server may be unreachable. Keys derive from
the event's subject, and the first writer wins, so a job that is killed and rerun emits each event once. A deliverer
(deliver.py) writes them to MLflow.

    spool/<run>/run-started.json
    spool/<run>/stages/<stage>/<fingerprint>/{started,rows-<first>-<end>,alarms-<number>,failed-<ms>,finished}.json
    spool/<run>/models/<name>/<version>[-<alias>].json        with an alias: one that was added later
    spool/<run>/reports/<digest>.json
    spool/<run>/turns/<ms>-<status>.json        ends of the run, and resumptions
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from components.runtime.lineage.events import (
    Code,
    MetricChunk,
    ModelRegistered,
    RaisedAlarm,
    ReportReady,
    RunFinished,
    RunResumed,
    RunStarted,
    StageAlarms,
    StageFailureEvent,
    StageFinished,
    StageStarted,
    UsedArtifact,
    epoch_milliseconds,
    moment,
)
from components.runtime.system.code import code_version

if TYPE_CHECKING:
    from components.contract.context import Input
    from components.contract.job import Job
    from components.runtime.ledger.fingerprint import Fingerprint
    from components.runtime.lineage.events import Event
    from components.runtime.store import Store

ROOT = "spool"
NO_FINGERPRINT = "none"
"""Replaces the fingerprint of a stage that was skipped or failed before it had one."""
TOLD_PARTS = ("epoch", "component", "params", "inputs", "seed", "code")
"""Parts of a fingerprint that are not repeated in `also_counted` of a stage's start event."""
ROWS = re.compile(r"/rows-(\d+)-(\d+)\.json$")


class Spool:
    """Writes one run's events into the store. Every method returns whether the event was new."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store, self._run_id = store, run_id
        self._covered: dict[str, int] = {}

    def run_started(self, entry: Mapping[str, Any]) -> bool:
        """Record that a run began, given its ledger entry (run.json)."""
        event = RunStarted.model_validate({**entry, "run_id": self._run_id, "time": moment(entry["started"])})
        return self._put(run_started_key(self._run_id), event)

    def run_resumed(self, at: float | None = None) -> bool:
        """Record that an ended run resumes; `at` is in seconds since the epoch, now by default."""
        event = RunResumed(run_id=self._run_id, time=moment(time.time() if at is None else at))
        return self._put(self._turn_key(event, "resumed"), event)

    def run_finished(self, status: str, *, ended: str | float, seconds: float | None = None) -> bool:
        """Record that the run ended with a status of end.json: succeeded, failed, stopped or waiting."""
        event = RunFinished.model_validate(
            {"run_id": self._run_id, "time": moment(ended), "status": status, "seconds": seconds}
        )
        return self._put(self._turn_key(event, status), event)

    def stage_started(self, job: Job, mark: Fingerprint, inputs: Mapping[str, Iterable[Input]]) -> bool:
        """Record that a stage begins, with its fingerprint and resolved inputs."""
        event = StageStarted(
            run_id=self._run_id,
            time=datetime.now(UTC),
            stage=job.stage,
            component=job.component,
            fingerprint=mark.digest,
            params=mark.parts["params"],
            seed=job.seed,
            labels=job.labels,
            group=job.group,
            inputs={
                port: [UsedArtifact(type=str(item.type), digest=item.digest, source=item.source) for item in items]
                for port, items in inputs.items()
            },
            code=Code.model_validate({**code_version(), "files": mark.parts["code"]}),
            also_counted={name: part for name, part in mark.parts.items() if name not in TOLD_PARTS},
        )
        return self._put(f"{self._stage_folder(job.stage, mark.digest)}/started.json", event)

    def metrics(self, stage: str, fingerprint: str, start: int, rows: Sequence[Mapping[str, float]]) -> bool:
        """Record rows `start`, `start` + 1, ... of a stage's history: {"step": s, name: finite value, ...}.

        Rows that are already in the spool are left out, however they were chunked. Raises ValueError if rows between
        them and `start` were never recorded.
        """
        folder = self._stage_folder(stage, fingerprint)
        if folder not in self._covered:
            self._covered[folder] = self._count_rows(folder)
        covered = self._covered[folder]
        if start > covered:
            raise ValueError(f"stage {stage!r}: rows from {start} on were told, but those from {covered} on never were")
        fresh = rows[covered - start :]
        if not fresh:
            return False
        end = covered + len(fresh)
        event = MetricChunk(
            run_id=self._run_id,
            time=datetime.now(UTC),
            stage=stage,
            fingerprint=fingerprint,
            start=covered,
            rows=[dict(row) for row in fresh],
        )
        self._covered[folder] = end
        return self._put(f"{folder}/rows-{covered:08d}-{end:08d}.json", event)

    def alarms(self, stage: str, fingerprint: str, alarms: Sequence[Mapping[str, Any]], changes: int) -> bool:
        """Record all alarms of a stage after one was raised or cleared; `changes` counts how often that happened."""
        event = StageAlarms(
            run_id=self._run_id,
            time=datetime.now(UTC),
            stage=stage,
            fingerprint=fingerprint,
            alarms=[RaisedAlarm.model_validate(alarm) for alarm in alarms],
        )
        return self._put(f"{self._stage_folder(stage, fingerprint)}/alarms-{changes:06d}.json", event)

    def stage_failed(self, stage: str, fingerprint: str | None, error: str, *, at: float | None = None) -> bool:
        """Record that an attempt at a stage failed; `at` is in seconds since the epoch, now by default."""
        happened = moment(time.time() if at is None else at)
        event = StageFailureEvent(run_id=self._run_id, time=happened, stage=stage, fingerprint=fingerprint, error=error)
        return self._put(f"{self._stage_folder(stage, fingerprint)}/failed-{event.milliseconds:014d}.json", event)

    def stage_finished(self, entry: Mapping[str, Any]) -> bool:
        """Record how a stage ended, given its ledger entry."""
        event = StageFinished.model_validate({**entry, "run_id": self._run_id, "time": moment(entry["ended"])})
        return self._put(f"{self._stage_folder(event.stage, event.fingerprint)}/finished.json", event)

    def model_registered(
        self,
        name: str,
        version: int,
        digest: str,
        *,
        stage: str,
        aliases: Iterable[str] = (),
        metrics: Mapping[str, float] | None = None,
        registered: str | float,
    ) -> bool:
        """Record that the registry has a version; called by `register_model`."""
        event = ModelRegistered(
            run_id=self._run_id,
            time=moment(registered),
            name=name,
            version=version,
            digest=digest,
            stage=stage,
            aliases=list(aliases),
            metrics=dict(metrics or {}),
        )
        folder = f"{ROOT}/{self._run_id}/models/{name}"
        told = self._store.get(f"{folder}/{version:06d}.json")
        fresh = [alias for alias in event.aliases if told and alias not in told["aliases"]]
        return self._put(f"{folder}/{'-'.join([f'{version:06d}', *fresh])}.json", event)

    def report_ready(self, digest: str) -> bool:
        """Record that the Report artifact `digest`, which holds an index.html, is the run's report."""
        event = ReportReady(
            run_id=self._run_id, time=datetime.now(UTC), digest=digest, uri=self._store.artifact_uri(digest)
        )
        return self._put(f"{ROOT}/{self._run_id}/reports/{digest}.json", event)

    def _put(self, key: str, event: Event) -> bool:
        return self._store.put(key, event.model_dump(mode="json"))

    def _turn_key(self, event: Event, status: str) -> str:
        return f"{ROOT}/{self._run_id}/turns/{epoch_milliseconds(event.time):014d}-{status}.json"

    def _stage_folder(self, stage: str, fingerprint: str | None) -> str:
        return f"{ROOT}/{self._run_id}/stages/{stage}/{fingerprint or NO_FINGERPRINT}"

    def _count_rows(self, folder: str) -> int:
        found = (ROWS.search(key) for key in self._store.keys(f"{folder}/rows-"))
        return max((int(match[2]) for match in found if match), default=0)


def run_started_key(run_id: str) -> str:
    """Return the key of a run's first event; no other event of a run is delivered before it."""
    return f"{ROOT}/{run_id}/run-started.json"


def spooled_keys(store: Store, run_id: str) -> list[str]:
    """Return the keys of all events of a run, sorted."""
    return list(store.keys(f"{ROOT}/{run_id}/"))


def spooled_runs(store: Store) -> dict[str, list[str]]:
    """Return run -> keys of its events, for all runs, in one listing."""
    runs: dict[str, list[str]] = {}
    for key in store.keys(f"{ROOT}/"):
        runs.setdefault(key.split("/")[1], []).append(key)
    return runs
