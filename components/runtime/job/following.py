"""A running stage on a rank other than the first: same inputs as the first rank, and its writes are discarded."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from typing import Any

from components.contract.context import Write
from components.runtime.job.stage import RunningStage


class FollowingStage(RunningStage):
    """The same context without side effects: no records and no partial checkpoints; it is given no spool."""

    def record(self, key: str, value: dict[str, Any]) -> None:
        """Do nothing: the first rank records."""

    def append(self, log: str, rows: Iterable[Any]) -> None:
        """Do nothing: the first rank keeps the logs."""

    def checkpoint(self, step: int, write: Write) -> None:
        """Call `write`, which may gather from all ranks, and discard what it gives."""
        folder = self.scratch / "unkept"
        folder.mkdir()
        write(folder)
        shutil.rmtree(folder)
