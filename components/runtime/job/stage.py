"""The running stage: the context that the launcher passes to a component's run function."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import canonical_json
from components.contract.component import Component
from components.contract.context import Input, Write
from components.contract.errors import StageFailed
from components.contract.job import Job
from components.contract.params import Params
from components.contract.terminal import visible_line
from components.runtime.checkpoints.checkpoints import Checkpoints
from components.runtime.checkpoints.moves import Border
from components.runtime.checkpoints.rollback import PART as ROLLBACK
from components.runtime.costs.spending import Spending
from components.runtime.store.answers import keep_answer, kept_answers
from components.runtime.system.machine import machine_record

if TYPE_CHECKING:
    from components.runtime.checkpoints.kept import Keeper
    from components.runtime.checkpoints.shards import Shards
    from components.runtime.job.progress import Progress
    from components.runtime.lineage.spool import Spool
    from components.runtime.store import Store

ROWS, OWN = "rows", "stage"
"""The log of the rows, and what the names of the stage's own logs begin with."""
OnRow = Callable[[int, Mapping[str, float], Collection[str]], None]
"""Takes a logged row: its step, its finite values, and the names of the others; what it raises ends the stage."""


class RunningStage:
    """Implements components.contract.context.StageContext on a scratch folder, the store and the lineage spool.

    A partial checkpoint holds what the stage wrote, its outputs so far, its logs and the rows that it logged. A resumed
    stage therefore continues from exactly the files of that step, whenever the checkpoint was made.
    """

    def __init__(
        self,
        job: Job,
        component: Component,
        params: Params,
        *,
        fingerprint: str,
        inputs: dict[str, list[Input]],
        store: Store,
        progress: Progress,
        scratch: Path,
        spool: Spool | None = None,
        on_row: OnRow | None = None,
        reasons: dict[str, str] | None = None,
        keeper: Keeper | None = None,
    ) -> None:
        """`on_row` watches what the stage logs; `reasons` takes what `explain` says of alarms.

        `keeper` keeps some checkpoints for forks.
        """
        self.job, self.component, self.params, self.seed = job, component, params, job.seed
        self.returned: dict[str, Any] | None = None
        """The step that an alarm returned the stage to, and the alarm's record, as its checkpoint tells."""
        self.scratch = scratch / "scratch"
        self.outputs = scratch / "outputs"
        self.metadata: dict[str, dict[str, Any]] = {port: {} for port in component.outputs}
        self.headlines: dict[str, float] = {}
        self._rows: list[dict[str, float]] = []
        self.lost: dict[int, list[str]] = {}
        """Index of a row -> its columns that were not finite."""
        self._on_row = on_row
        self._reasons = {} if reasons is None else reasons
        self._fingerprint, self._inputs = fingerprint, inputs
        self._store, self._spool, self._progress = store, spool, progress
        self._keeper, self._scratch, self._done = keeper, scratch, 0
        self._began, self._earlier_seconds = time.monotonic(), 0.0
        self.scratch.mkdir(parents=True)
        self.outputs.mkdir()
        self._checkpoints = Checkpoints(store.partials(fingerprint), scratch, self.outputs)
        self._border, self._spending = Border(store, job.run_id), Spending(store, job)
        self.resumed_from: int | None = None
        """Step of the partial checkpoint that was restored."""

    def restore(self, shards: Shards | None) -> None:
        """Go on from the last partial checkpoint, if there is one.

        Ranks that have `shards` go on from the same one, and store further ones together; all of them must call it.
        """
        self._checkpoints.shards = shards
        found = self._checkpoints.restore(self.tell, own_parts=self.job.resources.sharded)
        if found is None:
            return
        self.resumed_from, state = found
        log = self._checkpoints.log(ROWS)
        lost = state.get("lost", {})
        earlier = [[row, lost.get(str(index), [])] for index, row in enumerate(state.get("rows", ()))]
        log.append(earlier)  # checkpoints of earlier versions hold the rows in their state
        for index, (row, names) in enumerate([*log.rows(), *earlier]):
            self._rows.append(row)
            if names:
                self.lost[index] = names
        self.headlines, self.metadata = state["headlines"], state["metadata"]
        self._earlier_seconds = state.get("seconds", 0.0)
        self.returned = state.get(ROLLBACK)
        self._emit(self._rows)  # a kill may have come between the checkpoint and its rows
        self._keep(self.resumed_from)  # or between the checkpoint and its being kept

    @property
    def resumed_digest(self) -> str | None:
        """Return the digest of the partial checkpoint that was restored."""
        return self._checkpoints.restored

    @property
    def ends_at(self) -> int | None:
        """Return the step to end at, if an alarm returned the stage to it."""
        return self.returned and int(self.returned["step"])

    @cached_property
    def device(self) -> str:
        """Return "cuda" if the pool gives GPUs and one is available, else "cpu"."""
        if not self.job.resources.gpus:
            return "cpu"
        import torch

        return "cuda" if torch.cuda.is_available() else "cpu"

    def machine(self) -> dict[str, Any]:
        """Return where the stage runs, for its record."""
        models = bool(self.component.backends)
        processes = self.job.resources.world_size if "trainer" in self.component.backends else 1
        return machine_record(self.job, device=self.device if models else "cpu", processes=processes, models=models)

    @property
    def seconds(self) -> float:
        """Return the duration of the work so far, including earlier attempts up to their checkpoint."""
        return self._earlier_seconds + time.monotonic() - self._began

    def input(self, port: str) -> Input:
        """Return the one artifact of `port`; raise KeyError if an optional port is not connected."""
        found = self.inputs(port)
        if not found:
            raise KeyError(f"stage {self.job.stage!r}: input {port!r} is not connected")
        return found[0]

    def inputs(self, port: str) -> list[Input]:
        """Return all artifacts of `port`; empty if it is not connected."""
        self._declared(port, self.component.inputs)
        return self._inputs.get(port, [])

    def output(self, port: str) -> Path:
        """Return the folder whose content becomes the artifact of output `port`."""
        self._declared(port, self.component.outputs)
        folder = self.outputs / port
        folder.mkdir(exist_ok=True)
        return folder

    def written(self) -> dict[str, Path]:
        """Return the folders of the non-empty outputs, in declaration order."""
        folders = {port: self.outputs / port for port in self.component.outputs}
        return {port: folder for port, folder in folders.items() if folder.is_dir() and any(folder.iterdir())}

    def describe(self, port: str, **metadata: Any) -> None:
        """Add deterministic metadata to an output."""
        self._declared(port, self.component.outputs)
        canonical_json(metadata)
        self.metadata[port].update(metadata)

    def progress(self, done: int, total: int, **metrics: float) -> None:
        """Show progress to people."""
        self._done = done
        self._progress.step(done, total, metrics)

    def log(self, step: int, **metrics: float) -> None:
        """Record metrics of one training step; values that are not finite are left out and shown as a warning.

        Raises StoppedByAlarm if they raise an alarm that ends the stage.
        """
        finite = {name: float(value) for name, value in metrics.items() if math.isfinite(value)}
        if dropped := sorted(set(metrics) - set(finite)):
            self._progress.send("warning", text=f"step {step}: not finite: {', '.join(dropped)}")
            self.lost[len(self._rows)] = dropped
        self._rows.append({"step": step, **finite})
        self._checkpoints.log(ROWS).append([[self._rows[-1], dropped]])
        self._checkpoints.check()
        if self._on_row is not None:
            self._on_row(step, finite, dropped)

    def explain(self, alarm: str, reason: str) -> None:
        """Give the reason that an alarm's text ends with; the first one stays. A model may have written part of it."""
        self._reasons.setdefault(alarm, visible_line(reason))

    def tell(self, text: str) -> None:
        """Show people a line; it is kept with the stage's warnings."""
        self._progress.send("warning", text=text, kept=True)

    def headline(self, **metrics: float) -> None:
        """Record final metrics of the stage."""
        bad = [name for name, value in metrics.items() if not math.isfinite(value)]
        if bad:
            raise StageFailed(f"stage {self.job.stage!r}: headline metrics are not finite: {', '.join(sorted(bad))}")
        self.headlines.update({name: float(value) for name, value in metrics.items()})

    def history(self) -> list[dict[str, float]]:
        """Return all rows that `log` recorded, including those before a resume."""
        return [dict(row) for row in self._rows]

    def resume(self) -> Path | None:
        """Return the folder of this job's last partial checkpoint, or None on a fresh start."""
        return self._checkpoints.resumed if self.resumed_from is not None else None

    def part(self, name: str) -> Path:
        """Return where a file of the last partial checkpoint is; ranks' own parts come only when they are asked for."""
        return self._checkpoints.part(name, self.tell)

    def append(self, log: str, rows: Iterable[Any]) -> None:
        """Add JSON rows to one of the stage's append-only logs; the next checkpoint holds them."""
        self._checkpoints.log(f"{OWN}-{log}").append(rows)

    def appended(self, log: str) -> list[Any]:
        """Return the rows of a log at the checkpoint that the stage resumed from."""
        return self._checkpoints.log(f"{OWN}-{log}").rows()

    def checkpoint_due(self, minutes: float | None) -> bool:
        """Return whether the last checkpoint is `minutes` old, or, for None, old enough for what one costs.

        One that is to be kept is always due, and one of a run that moves or has spent its budget.
        """
        if self._border.reached() or self._spending.is_over():
            return True
        if self._keeper is not None and self._keeper.wants(self._done):
            return True
        return self._checkpoints.is_due(None if minutes is None else 60.0 * minutes)

    def checkpoint(self, step: int, write: Write) -> None:
        """Begin to commit what `write` gives, the outputs so far and all logs, atomically.

        Raises Moved or BudgetSpent, once it is committed, if the run is not to go on here.
        """
        state = {"headlines": self.headlines, "metadata": self.metadata, "seconds": round(self.seconds, 3)}
        rows = list(self._rows)

        def committed() -> None:
            self._keep(step)
            self._emit(rows)
            self._progress.send("checkpoint", step=step)

        self._checkpoints.begin(step, write, state, committed)
        if self._border.reached() or self._spending.is_over():
            self._checkpoints.wait()
            self._border.leave(self.job.stage, step)
            self._spending.end(f"ended at step {step}")

    def finish_log(self) -> None:
        """Pass the rows that no checkpoint has covered yet to the lineage spool."""
        self._checkpoints.join()
        self._emit(self._rows)

    def finish_checkpoints(self) -> None:
        """Wait until no checkpoint is being written; raise the failure of the last one."""
        self._checkpoints.wait()

    def leave_ranks(self) -> None:
        """Wait no longer for parts of other ranks, which may have ended."""
        if self._checkpoints.shards is not None:
            self._checkpoints.shards.abandon()

    def close(self) -> None:
        """Wait until no checkpoint is being written, whatever became of it."""
        self._checkpoints.join()

    def records(self) -> dict[str, dict[str, Any]]:
        """Return everything that `record` kept for this job, including earlier attempts."""
        return kept_answers(self._store, self._fingerprint)

    def record(self, key: str, value: dict[str, Any]) -> None:
        """Save a small JSON object at once, whatever the outcome of this attempt."""
        keep_answer(self._store, self._fingerprint, key, value)

    def _keep(self, step: int) -> None:
        """Keep the newest partial checkpoint, of `step`, if it is wanted."""
        if self._keeper is not None and self._keeper.wants(step):
            self._keeper.keep(step, self._scratch / "kept", self.tell)

    def _emit(self, rows: list[dict[str, float]]) -> None:
        """Pass rows to the lineage spool, which leaves out those that it has."""
        if self._spool is not None and rows:
            self._spool.metrics(self.job.stage, self._fingerprint, 0, rows)

    def _declared(self, port: str, ports: Any) -> None:
        if port not in ports:
            raise KeyError(f"component {self.component.name!r} declares no port {port!r} (known: {', '.join(ports)})")
