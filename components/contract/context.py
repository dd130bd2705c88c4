"""What a component's run function is given. The runtime implements it; components only import this page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from components.contract.artifacts import ArtifactType
from components.contract.component import Params
from components.contract.job import Job

P = TypeVar("P", bound=Params)


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
    """The whole world of a running stage: parameters, inputs, outputs, progress, metrics and resume."""

    job: Job
    params: P
    seed: int
    device: str
    """"cpu" or "cuda"; decided by the pool."""
    scratch: Path
    """A private folder that is deleted after the stage."""

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
        """Show people how far the stage is. Cheap (rate limited); nothing is recorded."""
        ...

    def log(self, step: int, **metrics: float) -> None:
        """Record metrics of one training step. They reach MLflow with the next checkpoint or at the end, once."""
        ...

    def headline(self, **metrics: float) -> None:
        """Record final metrics of the stage: what tables, `when` and `gate` see."""
        ...

    def history(self) -> list[dict[str, float]]:
        """Return all rows that `log` recorded, those before a resume included: {"step": s, **metrics}."""
        ...

    def records(self) -> Mapping[str, Mapping[str, Any]]:
        """Return all that `record` kept for this very job, earlier attempts included."""
        ...

    def record(self, key: str, value: dict[str, Any]) -> None:
        """Keep a small JSON object at once under a SHA-256 hex, until the job is done: what is dear to ask for again.

        The first value of a key stays. Unlike a checkpoint it may be made at any time.
        """
        ...

    def resume(self) -> Path | None:
        """Return the folder of the last partial checkpoint of this very job, or None at a fresh start."""
        ...

    def checkpoint(self, step: int, write: Callable[[Path], None]) -> None:
        """Make the job resumable from `step`: `write` fills an empty folder, which is then committed whole.

        Call it at steps that depend only on the parameters, never on time, so that a resumed run logs the same rows.
        """
        ...
