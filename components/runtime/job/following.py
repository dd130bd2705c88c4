"""A running stage on a rank other than the first: same inputs as the first rank, and its outputs are discarded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from components.contract.context import Write
from components.runtime.job.stage import RunningStage


class FollowingStage(RunningStage):
    """The same context without side effects but parts of checkpoints: no records and no logs; it is given no spool."""

    def record(self, key: str, value: dict[str, Any]) -> None:
        """Do nothing: the first rank records."""

    def append(self, log: str, rows: Iterable[Any]) -> None:
        """Do nothing: the first rank keeps the logs."""

    def checkpoint(self, step: int, write: Write) -> None:
        """Begin to store what `write` gives as this rank's part; of files with the same name the first rank's count."""
        self._checkpoints.begin_part(step, write)
