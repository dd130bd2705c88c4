"""A running stage on a rank other than the first: same inputs as the first rank, and its writes are discarded."""

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
    """The same context without side effects: no progress, no lineage, no partial checkpoints."""

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
        """Do nothing: the first rank records."""

    def checkpoint(self, step: int, write: Callable[[Path], None]) -> None:
        """Call `write`, which may gather from all ranks, and discard its files."""
        folder = self.scratch / "unkept"
        folder.mkdir()
        write(folder)
        shutil.rmtree(folder)
