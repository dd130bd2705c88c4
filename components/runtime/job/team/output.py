"""What ranks print: passed on to the stage's log line by line, each with its rank, and the last words kept."""

from __future__ import annotations

import subprocess
import sys
from threading import Thread

from components.contract.terminal import visible_line

MAX_WORDS = 300


class RankOutput:
    """Passes on what one rank prints, until it ends."""

    def __init__(self, rank: int, process: subprocess.Popen[bytes]) -> None:
        """`process` has its standard output in a pipe, and its standard error in the same."""
        self._rank, self._process, self._last = rank, process, ""
        self._thread = Thread(target=self._pass_on, name=f"posttrain-rank-{rank}", daemon=True)
        self._thread.start()

    def last_words(self, seconds: float = 1.0) -> str:
        """Return the last line that an ended rank printed, shortened; "" if it printed nothing."""
        self._thread.join(seconds)
        return self._last

    def _pass_on(self) -> None:
        assert self._process.stdout is not None
        for raw in self._process.stdout:
            line = raw.decode(errors="replace").rstrip()
            if not line:
                continue
            sys.stderr.write(f"[rank {self._rank}] {line}\n")
            sys.stderr.flush()
            self._last = visible_line(line.rpartition("\r")[2])[:MAX_WORDS]
