"""Jobs that are killed at a chosen instant: SIGKILL, sent by the process itself as it enters or leaves a function.

Instants are numbered by these events from the moment that the launcher tells that the stage begins, so that they are
the same on a fast machine and on a busy one, and lie everywhere: while rows are read, in a pass of the model, between
two calls of one commit.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from components.contract.job import Job
from components.runtime.ledger.records import stage_key
from components.runtime.store import open_store

RUN, STAGE = "run-1", "killed"
PRELOADED = ("components.runtime.job.launch", "components.runtime.gates.checking", "components.rl.run",
             "components.preference.run", "components.reward_model.run", "components.merge.run",
             "transformers.models.llama.modeling_llama", "transformers.models.auto.tokenization_auto")  # fmt: skip
"""What all of the processes need, imported once by the one that they are forked from."""
MOST_SECONDS = 300.0


@dataclass
class Fuse:
    """Counts events, and kills the process at one of them."""

    at: int
    events: int = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Be told of an event by the interpreter."""
        self.events += 1
        if self.events == self.at:
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Ended:
    """How a job's process ended."""

    code: int
    """Of its exit; less than 0, the signal that ended it."""
    events: int
    """How many there were, if it came to its end."""
    outputs: Mapping[str, str]
    """Port -> digest, if it came to its end."""
    partials: Sequence[int]
    """The checkpoints that were left, by step."""


@dataclass(frozen=True)
class Killable:
    """A stage that is run by the launcher in a process of its own, each time on a store of its own."""

    component: str
    params: Mapping[str, Any]
    inputs: Mapping[str, Sequence[Path]]

    def run(self, store: Path, *, at: int = 0) -> Ended:
        """Run the job to its end, or until its event number `at`."""
        count = store.with_name(f"{store.name}.events")
        count.unlink(missing_ok=True)
        process = multiprocessing.get_context("forkserver").Process(
            target=_launched, args=(self._job(store).model_dump_json(), at, str(count))
        )
        process.start()
        process.join(MOST_SECONDS)
        if process.exitcode is None:
            process.kill()
            raise AssertionError(f"the job does not end within {MOST_SECONDS:g} s")
        opened = open_store(str(store))
        entry = opened.get(stage_key(RUN, STAGE)) or {}
        return Ended(
            process.exitcode,
            int(count.read_text()) if count.exists() else 0,
            {port: found["digest"] for port, found in entry.get("outputs", {}).items()},
            sorted(int(path.parent.name.partition("-")[0]) for path in store.glob("partial/*/0*/manifest.json")),
        )

    def _job(self, store: Path) -> Job:
        inputs = {port: [{"uri": str(one)} for one in folders] for port, folders in self.inputs.items()}
        plain = {"run_id": RUN, "recipe": "test", "stage": STAGE, "component": self.component, "seed": 3}
        return Job.model_validate({**plain, "params": self.params, "inputs": inputs, "store": str(store)})


def preload() -> None:
    """Have the processes that are still to come forked from one that has imported what they need."""
    multiprocessing.set_forkserver_preload(list(PRELOADED))


def instants(events: int, count: int, seed: int = 0) -> list[int]:
    """Return `count` events of a run that has so many: one at random of each part of equal length."""
    chance, part = random.Random(seed), events / count
    return [1 + int(part * (number + chance.random())) for number in range(count)]


def _launched(job: str, at: int, count: str) -> None:
    """Entry of the process."""
    os.environ["POSTTRAIN_LINEAGE"] = "later"
    import torch

    from components.runtime.job.launch import Launch

    fuse = Fuse(at)

    class Counted(Launch):
        """Counts from the beginning of the stage on; not in data gates, whose library has most of all events."""

        def _pass_data_gates(self, *given: Any) -> dict[str, Any]:
            sys.setprofile(None)
            try:
                return super()._pass_data_gates(*given)
            finally:
                sys.setprofile(fuse)

    def heard(event: dict[str, Any]) -> None:
        if event["event"] == "started":
            sys.setprofile(fuse)

    torch.set_num_threads(1)
    try:
        Counted(Job.model_validate_json(job), heard, gates_here=True).run()
    finally:
        sys.setprofile(None)
    Path(count).write_text(str(fuse.events))
