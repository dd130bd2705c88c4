"""A running stage on a rank that is not the first: it sees what the first one sees, and what it writes goes nowhere."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.component import Component, Params
from components.contract.context import Input
from components.contract.job import Job
from components.runtime.job.progress import Progress
from components.runtime.job.stage import RunningStage

if TYPE_CHECKING:
    from components.runtime.store import Store


class FollowingStage(RunningStage):
    """The same context without a voice: no progress, no lineage, no partial checkpoints."""

    def __init__(
        self,
        job: Job,
        component: Component,
        params: Params,
        *,
        fingerprint: str,
        inputs: dict[str, list[Input]],
        store: Store,
        scratch: Path,
    ) -> None:
        super().__init__(
            job,
            component,
            params,
            fingerprint=fingerprint,
            inputs=inputs,
            store=store,
            spool=None,
            progress=Progress(job.stage, lambda event: None),
            scratch=scratch,
        )

    def record(self, key: str, value: dict[str, Any]) -> None:
        """Keep nothing: the first rank does."""

    def checkpoint(self, step: int, write: Callable[[Path], None]) -> None:
        """Take part in what `write` gathers from all ranks, and keep nothing."""
        folder = self.scratch / "unkept"
        folder.mkdir()
        write(folder)
        shutil.rmtree(folder)
