"""A running stage on a rank other than the first: same inputs as the first rank, and its writes are discarded."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from components.runtime.job.stage import RunningStage


class FollowingStage(RunningStage):
    """The same context without side effects: no records and no partial checkpoints; it is given no spool."""

    def record(self, key: str, value: dict[str, Any]) -> None:
        """Do nothing: the first rank records."""

    def checkpoint(self, step: int, write: Callable[[Path], None]) -> None:
        """Call `write`, which may gather from all ranks, and discard its files."""
        folder = self.scratch / "unkept"
        folder.mkdir()
        write(folder)
        shutil.rmtree(folder)
