"""A stage made again up to one of its steps, from a checkpoint that it kept or from its start.

It is the stage's own `run`, with the parameters, inputs, seed and threads of then, on a context that ends at that step.
Nothing of it reaches the ledger, lineage or the cache: what it wrote is compared with what was recorded, and removed.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.component import Component
from components.contract.context import Input, Write
from components.contract.endpoints import endpoint_name
from components.contract.errors import InputError, StageFailed
from components.contract.job import Fork, Job, Resources
from components.contract.params import Params
from components.contract.registry import components
from components.contract.uploaded import use as use_uploads
from components.runtime.checkpoints.forks import Forked, begin_fork
from components.runtime.checkpoints.kept import Kept, find_kept, kept_steps
from components.runtime.job.process import limit_threads
from components.runtime.job.progress import Progress, Sink
from components.runtime.job.scratch import scratch_folder
from components.runtime.job.stage import RunningStage
from components.runtime.ledger.fingerprint import Fingerprint, fingerprint
from components.runtime.ledger.operator_code import use_code
from components.runtime.ledger.records import action_key, load_job
from components.runtime.system.determinism import deterministic_torch, set_environment
from components.runtime.system.machine import machine_in_words, machine_record
from components.runtime.system.products import Products, pinned

if TYPE_CHECKING:
    from components.runtime.store import Store

LOCK_WAIT_SECONDS = 5.0


class _Reached(Exception):
    """The step is done."""


class _Until(RunningStage):
    """A running stage that ends with a step, and makes no checkpoints."""

    last = 0

    def log(self, step: int, **metrics: float) -> None:
        """Record the step's metrics, and end the stage if it is the last one wanted."""
        super().log(step, **metrics)
        if step >= self.last:
            raise _Reached

    def checkpoint_due(self, minutes: float | None) -> bool:
        """Return that none is due."""
        return False

    def checkpoint(self, step: int, write: Write) -> None:
        """Make none: no output depends on when they are made."""


@dataclass(frozen=True)
class Again:
    """Steps that were made again."""

    rows: list[dict[str, float]]
    """What the stage logged, from its first step."""
    outputs: Path
    """Folder of its outputs so far, by port."""
    machine: Mapping[str, Any]
    seconds: float


class RecordedWork:
    """One stage of a run, as its ledger entry and its action tell of it."""

    def __init__(self, store: Store, entry: Mapping[str, Any]) -> None:
        self._store, self._entry = store, entry
        self.name = f"stage {entry['stage']!r} of run {entry['run_id']}"
        action = store.recover(action_key(entry["fingerprint"])) or {}
        self._parts: Mapping[str, Any] = action.get("parts") or {}
        self.machine: Mapping[str, Any] = entry.get("machine") or action.get("machine") or {}
        limit_threads(self.machine.get("threads", 1))
        use_code(store)
        job = load_job(store, entry["run_id"], entry["stage"])  # engines elsewhere keep it, with the files of a client
        use_uploads(job.uploaded if job else {}, store.fetch_or_set_aside)
        component: Component = components().get(entry["component"])
        self.params: Params = component.params.model_validate(entry["params"])
        self._component = component.formed(self.params)
        self._job = self._job_of(entry)

    def begin_of(self, step: int) -> Kept | None:
        """Return the newest checkpoint that was kept before a step, a fork's first one included; None without any."""
        found = [find_kept(self._store, self._entry["fingerprint"], at) for at in self._kept_steps() if at < step]
        fork = self._entry.get("fork")
        if fork and fork["step"] < step:
            found.append(find_kept(self._store, fork["fingerprint"], fork["step"]))
        return max(
            (kept for kept in found if kept and self._store.has(kept.digest)), key=attrgetter("step"), default=None
        )

    def _kept_steps(self) -> list[int]:
        return kept_steps(self._store, self._entry["fingerprint"])

    def changed_code(self) -> list[str]:
        """Return the files of the work that are not those of then; empty where that is not known."""
        if not self._parts:
            return []
        digests = {port: [item.digest for item in items] for port, items in self._inputs().items()}
        named = self._parts.get("verifiers")
        now = fingerprint(
            self._component, self.params, digests, self._job.seed, self._job.resources, verifiers=named
        ).parts
        files = {*self._parts["code"], *now["code"]}
        return sorted(name for name in files if self._parts["code"].get(name) != now["code"].get(name))

    @contextmanager
    def up_to(self, step: int, begin: Kept | None, sink: Sink) -> Iterator[Again]:
        """Make the steps behind `begin` (None: the start) again, `step` the last; the outputs are gone after it."""
        mark = Fingerprint.of({**self._parts, "replay": [self._entry["fingerprint"], step, begin and begin.step]})
        store = self._store
        with ExitStack() as stack:
            stack.enter_context(store.lock(f"job-{mark.digest}", wait_seconds=LOCK_WAIT_SECONDS))
            stack.callback(store.partials(mark.digest).drop)
            scratch = stack.enter_context(scratch_folder(store, mark.digest))
            progress = Progress(self._job.stage, sink)
            if begin is not None:
                forked = Forked(self._entry["run_id"], self._entry["stage"], begin)
                begin_fork(store, forked, mark, scratch / "fork", lambda text: progress.send("warning", text=text))
            stage = self._stage(mark, self._inputs(fetch=True), progress, scratch)
            stage.last = step
            stack.enter_context(closing(stage))
            stage.restore(None)
            before = stage.seconds
            self._run(stage)
            machine = machine_record(self._job, device=stage.device, processes=1, models=True)
            yield Again(stage.history(), stage.outputs, machine, stage.seconds - before)

    @contextmanager
    def opened(self, more: Mapping[str, Iterable[str]]) -> Iterator[Any]:
        """Yield the stage's StageContext before its first step, for who reads its inputs and runs nothing.

        `more` gives digests of further inputs by port.
        """
        mark = Fingerprint.of({**self._parts, "opened": self._entry["fingerprint"]})
        with scratch_folder(self._store, mark.digest) as scratch:
            inputs = self._inputs(fetch=True)
            for port, digests in more.items():
                inputs[port] = [self._input({"digest": digest, "source": digest}, fetch=True) for digest in digests]
            yield self._stage(mark, inputs, Progress(self._job.stage, lambda event: None), scratch)

    def _stage(self, mark: Fingerprint, inputs: dict[str, list[Input]], progress: Progress, scratch: Path) -> _Until:
        return _Until(
            self._job,
            self._component,
            self.params,
            fingerprint=mark.digest,
            inputs=inputs,
            store=self._store,
            progress=progress,
            scratch=scratch,
        )

    def _run(self, stage: _Until) -> None:
        module, _, name = self._component.run.partition(":")
        products = Products(**self.machine["products"]) if "products" in self.machine else None
        with ExitStack() as stack:
            stack.enter_context(deterministic_torch(self._job.resources))
            if products is not None:
                stack.enter_context(pinned(products))
            try:
                getattr(importlib.import_module(module), name)(stage)
            except _Reached:
                return
        raise StageFailed(f"replay: {self.name} ended before the step that was asked for")

    def _inputs(self, *, fetch: bool = False) -> dict[str, list[Input]]:
        """Return the inputs of then, by their digests."""
        return {
            port: [self._input(item, fetch=fetch) for item in items]
            for port, items in self._entry["inputs"].items()
            if items
        }

    def _input(self, item: Mapping[str, Any], *, fetch: bool) -> Input:
        digest = item["digest"]
        if not self._store.has(digest):
            raise InputError(f"input {item['source']} of {self.name} is no longer in the store")
        manifest = self._store.manifest(digest)
        path = self._store.fetch(digest) if fetch else Path()
        return Input(type=manifest.type, digest=digest, path=path, metadata=manifest.metadata, source=item["source"])

    @property
    def _num_processes(self) -> int:
        return int(self.machine.get("processes", 1))

    def _job_of(self, entry: Mapping[str, Any]) -> Job:
        backends = dict(self._parts.get("backends") or {}) if self._num_processes == 1 else {}
        gpus = 0 if self.machine.get("device", "cpu") == "cpu" else 1
        resources = Resources(threads=self.machine.get("threads", 1), gpus=gpus, **backends)
        fork = entry.get("fork")
        return Job(
            run_id=entry["run_id"],
            recipe=entry["recipe"],
            stage=entry["stage"],
            component=entry["component"],
            params=entry["params"],
            inputs={},
            seed=entry["seed"],
            store=self._store.uri,
            resources=resources,
            labels=entry["labels"],
            group=entry["group"],
            fork=Fork(run=fork["run_id"], step=fork["step"]) if fork else None,
        )

    def check_here(self) -> None:
        """Raise InputError, in one line, if the stage cannot be made again in this process."""
        if (count := self._num_processes) > 1:
            raise InputError(f"replay: {self.name} trained on {count} processes, and a replay is one process")
        asked = [item["source"] for items in self._entry["inputs"].values() for item in items]
        if endpoint := next((source for source in asked if endpoint_name(source)), None):
            raise InputError(
                f"replay: {self.name} asked {endpoint}, whose answers of then are in its metrics alone; a replay would "
                "ask it anew"
            )
        set_environment(self._job.resources)
        if self._job.resources.gpus and not _has_gpu():
            raise InputError(
                f"replay: {self.name} ran on {machine_in_words(dict(self.machine))}, and there is no GPU here"
            )


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())
