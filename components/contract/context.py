"""The context passed to a component's run function. The runtime implements it; components import only this module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from components.contract.artifacts import ArtifactType
from components.contract.job import Job
from components.contract.params import Params

P = TypeVar("P", bound=Params)
Finish = Callable[[], None]
"""Writes the rest of a checkpoint from a snapshot, while the stage goes on."""
Write = Callable[[Path], Finish | None]
"""Fills the empty folder of a checkpoint, or takes a snapshot and returns what fills it later."""


@dataclass(frozen=True)
class Input:
    """A verified, read-only input artifact on local disk."""

    type: ArtifactType
    digest: str
    path: Path
    metadata: Mapping[str, Any]
    source: str
    """Where the job got it: "stage.port" or a URI."""


class StageContext(Protocol, Generic[P]):
    """Everything a running stage can use: parameters, inputs, outputs, progress, metrics and resume."""

    job: Job
    params: P
    seed: int
    device: str
    """"cpu" or "cuda"; decided by the pool."""
    scratch: Path
    """A private folder that is deleted after the stage."""
    ends_at: int | None
    """The step at which the stage ends and writes its outputs: an alarm returned it to the checkpoint of this step."""

    def input(self, port: str) -> Input:
        """Return the one artifact of `port`; raise KeyError if an optional port is not connected."""
        ...

    def inputs(self, port: str) -> list[Input]:
        """Return all artifacts of `port`; empty if it is not connected."""
        ...

    def output(self, port: str) -> Path:
        """Return the empty folder whose content becomes the artifact of output `port`."""
        ...

    def describe(self, port: str, **metadata: Any) -> None:
        """Add metadata to an output. It is part of the digest: deterministic facts only, no times or host names."""
        ...

    def progress(self, done: int, total: int, **metrics: float) -> None:
        """Show progress to people. Cheap (rate limited); nothing is recorded."""
        ...

    def log(self, step: int, **metrics: float) -> None:
        """Record metrics of one training step. They reach MLflow once: with the next checkpoint or at the end."""
        ...

    def explain(self, alarm: str, reason: str) -> None:
        """Give the reason that an alarm's text ends with if the next row raises it; the first one stays."""
        ...

    def tell(self, text: str) -> None:
        """Show people a line, such as what was left out and why; it stays with the stage's warnings."""
        ...

    def headline(self, **metrics: float) -> None:
        """Record final metrics of the stage, for tables, `when` and `gate`."""
        ...

    def history(self) -> list[dict[str, float]]:
        """Return all rows that `log` recorded, including those before a resume: {"step": s, **metrics}."""
        ...

    def records(self) -> Mapping[str, Mapping[str, Any]]:
        """Return everything that `record` kept for this job, including earlier attempts."""
        ...

    def record(self, key: str, value: dict[str, Any]) -> None:
        """Save a small JSON object at once under a SHA-256 hex until the job is done, if it is expensive to get again.

        The first value of a key stays. Unlike a checkpoint, it may be saved at any time.
        """
        ...

    def resume(self) -> Path | None:
        """Return the folder of this job's last partial checkpoint, or None on a fresh start."""
        ...

    def part(self, name: str) -> Path:
        """Return where a file of the last partial checkpoint is, fetched if it is not in its folder yet.

        Where ranks hold shards, files named <kind>-<rank, five digits>.safetensors are there only when asked for. There
        may be none of this name.
        """
        ...

    def append(self, log: str, rows: Iterable[Any]) -> None:
        """Add JSON rows to one of the stage's append-only logs; the next checkpoint holds them.

        For what only grows: each row is written once, not again with every checkpoint.
        """
        ...

    def appended(self, log: str) -> list[Any]:
        """Return the rows of a log at the last partial checkpoint; empty on a fresh start."""
        ...

    def checkpoint_due(self, minutes: float | None) -> bool:
        """Return whether the last checkpoint is `minutes` old, and none is being written.

        None: whether it is so old that checkpoints take less than 2 % of the stage's time.
        """
        ...

    def checkpoint(self, step: int, write: Write) -> None:
        """Make the job resumable from `step`, atomically. May be called at any time: no output may depend on when.

        `write` fills an empty folder. What takes long it leaves to a function that it returns: that runs on another
        thread while the stage goes on, so it must only use copies. Outputs are copied at once; make a file that will
        not change read-only, so that it is linked instead. A checkpoint that fails ends the stage at its next call.
        """
        ...
