"""Alarms of a job: what its stage logs is watched, what is raised reaches the ledger, lineage and whoever watches.

A record per stage (ledger/<run>/alarms/<stage>.json) is written as soon as an alarm is raised or cleared, so that a
killed stage, and one on another machine, shows it, too.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from components.contract.artifacts import HISTORY_FILE, ArtifactType
from components.contract.component import Component
from components.contract.errors import CorruptArtifact, NotFiniteError, PosttrainError, StoppedByAlarm
from components.contract.job import Job
from components.contract.params import Params
from components.runtime.alarms.bounds import bounds_of
from components.runtime.alarms.watch import Raised, Watch
from components.runtime.alarms.words import alarm_line, helps_by_name
from components.runtime.job.progress import Progress
from components.runtime.job.stage import RunningStage
from components.runtime.ledger.notices import tell_alarm
from components.runtime.ledger.records import alarms_key, alarms_record, output_record
from components.runtime.lineage.spool import Spool
from components.runtime.store import Store

NOT_FINITE = "not_finite"
"""Name by which a component declares the alarm that an infinite loss or gradient raises."""
KEPT = (ArtifactType.METRICS, ArtifactType.ROLLOUTS)
"""Outputs that are kept of a stage that an alarm ended."""


class JobAlarms:
    """The alarms of one job with one fingerprint."""

    def __init__(
        self,
        job: Job,
        component: Component,
        params: Params,
        fingerprint: str,
        *,
        store: Store,
        spool: Spool,
        progress: Progress,
    ) -> None:
        self._job, self._component, self._fingerprint = job, component, fingerprint
        self._store, self._spool, self._progress = store, spool, progress
        self._helps = helps_by_name(component.alarms, params, job.written)
        self.bounds = bounds_of(component, job.alarms)
        self._watch = self._fresh()
        self._kept: dict[str, Any] = {}
        self._returned: Raised | None = None
        """The alarm that returned the stage to a checkpoint."""
        self.reasons: dict[str, str] = {}
        """Alarm -> what its text ends with: the first case in the stage's words."""

    def take(self, step: int, row: Mapping[str, float], lost: Collection[str]) -> None:
        """Take a row as it is logged; raise StoppedByAlarm where the recipe says so."""
        changed = self._watch.take(step, row, lost)
        for item in changed:
            if item.cleared is None and item.name in self.reasons:
                item.text += f"; the first: {self.reasons[item.name]}"
        self._publish(changed)
        if self._job.on_alarm != "warn" and self._watch.active and self._returned is None:
            raise StoppedByAlarm(self._stop_text())

    def restore(self, rows: Sequence[Mapping[str, float]], lost: Mapping[int, Collection[str]]) -> None:
        """Take the rows of earlier attempts again; `lost` maps the index of a row to its columns not finite."""
        for index, row in enumerate(rows):
            self._watch.take(int(row["step"]), row, lost.get(index, ()))
        if self._returned is not None:
            self._watch.raised = [*self._watch.raised, self._returned]
            self._publish([self._returned])
            return
        with suppress(CorruptArtifact):
            known = self._store.get(alarms_key(self._job.run_id, self._job.stage))
            if not self._watch.raised and known is None:
                return
            told = {(item["name"], item["since"]): item["text"] for item in known["alarms"]} if known else {}
            for item in self._watch.raised:
                item.text = told.get((item.name, item.since), item.text)
        self._show(self._watch.raised)
        self._save()

    def of_error(self, error: PosttrainError, rows: Sequence[Mapping[str, float]]) -> PosttrainError:
        """Raise the alarm of a loss or gradient that is not finite; return the error that ends the stage."""
        if not isinstance(error, NotFiniteError):
            return error
        step = int(rows[-1]["step"]) + 1 if rows else 1
        item = self._watch.raise_now(NOT_FINITE, step, str(error).partition("; ")[0])
        if item is None:
            return error
        self._publish([item])
        return StoppedByAlarm(self._stop_text()) if self._job.on_alarm != "warn" else error

    def earliest(self) -> dict[str, Any]:
        """Return the record of the lasting alarm that began first."""
        return min(self._watch.active, key=lambda item: item.since).json()

    def returned(self, step: int, alarm: Mapping[str, Any]) -> None:
        """Begin anew, for a stage that an alarm returns to `step`; that alarm stays, and says so."""
        self._watch = self._fresh()
        self._returned = Raised(**alarm)
        self._returned.text += f"; returned to step {step}"

    def keep(self, stage: RunningStage) -> None:
        """Store what is needed to look at a stage that an alarm ended: its history and its samples."""
        port = next((port for port, info in self._component.outputs.items() if info.type == ArtifactType.METRICS), None)
        if port is not None and stage.history():
            text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in stage.history())
            (stage.output(port) / HISTORY_FILE).write_text(text, encoding="utf-8")
        for port, folder in stage.written().items():
            type = self._component.outputs[port].type
            if type in KEPT:
                self._kept[port] = output_record(self._store, self._store.commit(type, folder, stage.metadata[port]))
        self._save()

    def to_action(self) -> dict[str, Any]:
        """Return what an action records, so that a cache hit raises the alarms again; empty without declared ones."""
        if not self._component.alarms:
            return {}
        return {"alarms": {"bounds": self.bounds, "raised": [item.json() for item in self._watch.raised]}}

    def of_action(self, action: Mapping[str, Any]) -> None:
        """Raise the alarms of an earlier result again, by this job's bounds; raise StoppedByAlarm as if it ran now."""
        if not self._component.alarms:
            return
        known = action.get("alarms") or {"bounds": None, "raised": []}
        if known["bounds"] == self.bounds:
            raised = [Raised(**item) for item in known["raised"]]
        else:
            raised = self._judged_anew(action, known["raised"])
        for item in raised:
            item.helps = self._helps.get(item.name, item.helps)
        self._watch.raised = raised
        if raised:
            self._publish(raised)
        if raised and self._job.on_alarm == "stop":
            raise StoppedByAlarm(f"{self._stop_text(raised)}, in its earlier result")

    def show_again(self) -> None:
        """Send the recorded alarms of a stage that is done to whoever watches."""
        with suppress(CorruptArtifact):  # `posttrain verify` names it
            record = self._store.get(alarms_key(self._job.run_id, self._job.stage)) or {"alarms": []}
            self._show(Raised(**item) for item in record["alarms"])

    def _judged_anew(self, action: Mapping[str, Any], known: list[dict[str, Any]]) -> list[Raised]:
        """Return what the history of an earlier result raises by this job's bounds."""
        self._watch = self._fresh()
        outputs = action["outputs"].values()
        digest = next((output["digest"] for output in outputs if output["type"] == ArtifactType.METRICS), None)
        if digest is not None and any(file.path == HISTORY_FILE for file in self._store.manifest(digest).files):
            for line in self._store.read_file(digest, HISTORY_FILE).decode().splitlines():
                row = json.loads(line)
                self._watch.take(int(row["step"]), row)
        # values that are not finite are in no history, so these were recorded when they came
        is_on = self.bounds.get(NOT_FINITE) is not None
        return [*(Raised(**item) for item in known if item["name"] == NOT_FINITE and is_on), *self._watch.raised]

    def _fresh(self) -> Watch:
        return Watch(self._component.alarms, bounds=self._job.alarms, helps=self._helps)

    def _stop_text(self, items: Sequence[Raised] = ()) -> str:
        last = (items or self._watch.active)[-1]
        return f"stage {self._job.stage!r}: stopped by {alarm_line(last.json())}"

    def _publish(self, changed: Sequence[Raised]) -> None:
        if not changed:
            return
        self._save()
        records = [item.json() for item in self._watch.raised]
        self._spool.alarms(self._job.stage, self._fingerprint, records, self._watch.changes)
        self._show(changed)
        for item in changed:
            if item.cleared is None:
                tell_alarm(self._store, self._job, item.json())

    def _show(self, items: Iterable[Raised]) -> None:
        for item in items:
            self._progress.send("alarm", alarm=item.json())

    def _save(self) -> None:
        key = alarms_key(self._job.run_id, self._job.stage)
        records = [item.json() for item in self._watch.raised]
        record = alarms_record(self._job, self._fingerprint, records, self._kept)
        self._store.put(key, record, overwrite=True)
