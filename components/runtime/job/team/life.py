"""Signs of life of a job's ranks: each says now and then where it is, and the first notices who has fallen silent.

A rank whose process is stopped, or whose node is gone, breaks no connection: the others would wait for it until a
collective times out, and would then be the ones that complain.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from components.runtime.system.waits import seconds_of

if TYPE_CHECKING:
    from torch.distributed import Store

SECONDS = "POSTTRAIN_RANK_SECONDS"
"""How long a rank may show no sign of life."""
DEFAULT = 300.0
LOOKS = 20
"""Signs that a rank gives within that time."""
ALIVE = "posttrain/alive/{}"
OUTSIDE = "a place outside of posttrain"
ROOT = Path(__file__).parents[4]
JOB = Path(__file__).parents[1]
"""What runs a component, and is not what it does."""


def patience(environ: Mapping[str, str] = os.environ) -> float:
    """Return how many seconds a rank may be silent. Raises InputError for an invalid number."""
    return seconds_of(SECONDS, DEFAULT, environ)


@contextmanager
def showing_life(store: Store, rank: int) -> Iterator[None]:
    """Show signs of life inside this context, from a thread of their own; `store` is used by nothing else."""
    every, main, over = patience() / LOOKS, threading.main_thread().ident, threading.Event()

    def show() -> None:
        count = 0
        with suppress(RuntimeError):  # the server is gone, and with it the job
            while not over.is_set():
                count += 1
                place = place_of(sys._current_frames().get(main or 0))
                store.set(ALIVE.format(rank), json.dumps([count, place]))
                over.wait(every)

    thread = threading.Thread(target=show, name="posttrain-life", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()  # a thread in a call of the store would abort the interpreter's exit
        with suppress(RuntimeError):
            store.delete_key(ALIVE.format(rank))  # what it does from here on is no silence


def place_of(frame: FrameType | None, lines: Mapping[FrameType, int] | None = None) -> str:
    """Return the innermost place of a stack that is in this tree, such as "components/rl/step/loop.py:88 (_learn)".

    `lines` are those of frames that have gone on since.
    """
    while frame is not None:
        path = Path(frame.f_code.co_filename)
        ours = path.is_relative_to(ROOT) and "site-packages" not in path.relative_to(ROOT).parts
        if ours and not path.is_relative_to(JOB):
            line = (lines or {}).get(frame, frame.f_lineno)
            return f"{path.relative_to(ROOT)}:{line} ({frame.f_code.co_name})"
        frame = frame.f_back
    return OUTSIDE


def place_in_traceback(error: BaseException) -> str:
    """Return the innermost place of an error that is in this tree."""
    trace = error.__traceback__
    lines: dict[FrameType, int] = {}
    while trace is not None:
        lines[trace.tb_frame], last = trace.tb_lineno, trace.tb_frame
        trace = trace.tb_next
    return place_of(last, lines) if lines else OUTSIDE


class Silence:
    """Notices ranks that have shown life and no longer do.

    Only the time in which this process runs counts: a job that is stopped and continued as a whole loses nobody.
    """

    def __init__(self, store: Store, world: int) -> None:
        """`store` is used by nothing else."""
        self._store, self._world, self._seconds = store, world, patience()
        self.every = self._seconds / LOOKS
        """Seconds from one look to the next."""
        self._at = time.monotonic()
        self._last: dict[int, int] = {}
        self._places: dict[int, str] = {}
        self._silent: dict[int, float] = {}

    def is_due(self) -> bool:
        """Return whether it is time to look."""
        return time.monotonic() - self._at >= self.every

    def look(self) -> tuple[int, str] | None:
        """Return a rank that has been silent for too long, and the failure in words; None if there is none."""
        now = time.monotonic()
        passed, self._at = min(now - self._at, 2 * self.every), now
        for rank in range(1, self._world):
            if not self._store.check([ALIVE.format(rank)]):
                self._silent.pop(rank, None)
                continue  # it has not begun, or is done
            count, place = json.loads(self._store.get(ALIVE.format(rank)))
            silent = self._silent.get(rank, 0.0) + passed if count == self._last.get(rank) else 0.0
            self._last[rank], self._places[rank], self._silent[rank] = count, place, silent
            if silent >= self._seconds:
                return rank, (
                    f"rank {rank} of {self._world} showed no sign of life for {self._seconds:g} s ({SECONDS}): its "
                    f"process is stopped, or its node is gone; it was last seen at {place}"
                )
        return None

    def places(self) -> dict[int, str]:
        """Return where each rank was when it last showed life."""
        return dict(self._places)
