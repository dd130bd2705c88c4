"""A stage of a run with a journal of its steps, as people name it: RUN:rl."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import HISTORY_FILE, ArtifactType
from components.contract.errors import InputError, UnknownName, did_you_mean
from pipelines.runs.find import find_run

if TYPE_CHECKING:
    from components.rl.journal.segments import JournalFolder
    from components.runtime.store import Store


@dataclass(frozen=True)
class RecordedStage:
    """A stage that ended, with its ledger entry and its journal."""

    store: Store
    entry: dict[str, Any]
    journal: JournalFolder

    @property
    def name(self) -> str:
        """Return its name for messages."""
        return f"stage {self.entry['stage']!r} of run {self.entry['run_id']}"

    @cached_property
    def steps(self) -> list[int]:
        """Return the steps that were recorded, ascending."""
        return self.journal.steps()

    @cached_property
    def history(self) -> dict[int, dict[str, float]]:
        """Return the rows of the history by step."""
        digest = _output(self.entry, ArtifactType.METRICS)
        if digest is None:
            return {}
        lines = self.store.read_file(digest, HISTORY_FILE).decode().splitlines()
        return {int(row["step"]): row for row in map(json.loads, lines)}

    @cached_property
    def seconds(self) -> float:
        """Return how long the stage took where it ran; 0 where that is not known."""
        from components.runtime.ledger.records import action_key

        action = self.store.recover(action_key(self.entry["fingerprint"])) or {}
        return float(action.get("seconds") or 0.0)

    def seconds_of(self, count: int) -> float:
        """Return about how long so many of its steps take."""
        return self.seconds * count / max(1, len(self.history))

    def steps_text(self) -> str:
        """Return the recorded steps in words: "steps 1 to 60"."""
        first, last = self.steps[0], self.steps[-1]
        gaps = "" if len(self.steps) == last - first + 1 else f" ({len(self.steps)} of them)"
        return f"step {first}" if first == last else f"steps {first} to {last}{gaps}"


def recorded_stage(store: Store, text: str, command: str) -> RecordedStage:
    """Return the stage that RUN:STAGE names, or the one stage of RUN with a journal.

    Raises InputError or UnknownName, in one line, for a run, a stage or a journal that is not there.
    """
    from components.rl.journal.segments import JournalFolder
    from components.runtime.ledger.ledger import load_run

    run_text, _, wanted = text.partition(":")
    run = load_run(store, find_run(store, run_text))
    trained = {name: entry for name, entry in run.stages.items() if entry["component"] == "rl" and entry["outputs"]}
    if not wanted and len(trained) != 1:
        what = f"one of its stages {', '.join(trained)}" if trained else "a run with an rl stage that ended"
        raise InputError(f"{command}: name {what}: {command} {run_text}:STAGE")
    name = wanted or next(iter(trained))
    if name in run.stage_names and name not in run.stages:
        raise InputError(f"{command}: stage {name!r} of run {run.run_id} has not ended: there is no journal of it yet")
    if name not in run.stages:
        raise UnknownName("stage", name, run.stage_names)
    if name not in trained:
        raise InputError(
            f"{command}: stage {name!r} of run {run.run_id} is no rl stage that ended: its steps are in no journal"
            f"{did_you_mean(name, trained) if trained else ''}"
        )
    digest = _output(trained[name], ArtifactType.ROLLOUTS)
    journal = JournalFolder(store.fetch(digest)) if digest is not None and store.has(digest) else None
    found = None if journal is None else RecordedStage(store, trained[name], journal)
    if found is None or not found.steps:
        raise InputError(
            f"{command}: stage {name!r} of run {run.run_id} recorded no steps: it ran before there was a journal, "
            "or its rollouts are gone; run it again"
        )
    return found


def _output(entry: dict[str, Any], type: ArtifactType) -> str | None:
    """Return the digest of an output of a type, or None."""
    return next((made["digest"] for made in entry["outputs"].values() if made["type"] == type), None)
