"""Processes that check parts side by side: the stage's own reads the rows and deals them out, in files.

So a part's rows are never in memory together, however long they are.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

from components.contract.errors import InputError, PosttrainError, StageFailed
from components.curate.stream.parts import Facts, Part
from components.curate.stream.sift import Sifter
from components.runtime.system.parent import die_with_parent
from components.tasks.source import BadRow, SourceRow

BATCH = 256
"""Rows that are pickled together."""


class SiftProcesses:
    """As many processes as there are parts to check at the same time, at most `count`.

    They are forked: operators in users' files, and where rows' verifiers are looked up, are as in this process.
    """

    def __init__(self, sifter: Sifter, folder: Path, count: int, progress: Callable[[int], None]) -> None:
        """`folder` holds parts that are being written; `progress` is told how many rows more were checked."""
        self._sifter, self._folder, self._count, self._progress = sifter, folder, count, progress
        self._processes: dict[Connection, int] = {}
        self._busy: dict[Connection, tuple[int, int]] = {}
        """The source and the number of the part that each makes."""

    def __enter__(self) -> SiftProcesses:
        return self

    def __exit__(self, *raised: object) -> None:
        for connection, process in self._processes.items():
            connection.close()
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            _wait_for(process)

    def deal(self, rows: Iterable[SourceRow | BadRow], source: int, number: int) -> int:
        """Write the rows of the next part for a process, and return how many there are."""
        count, left = 0, iter(rows)
        with self._dealt(source, number).open("wb") as stream:
            while batch := list(islice(left, BATCH)):
                pickle.dump(batch, stream)
                count += len(batch)
        return count

    def check(self, source: int, number: int) -> Iterator[tuple[Part, Facts]]:
        """Let a process make the part that was dealt; yield the parts that were finished until one was free."""
        while len(self._busy) >= self._count:
            yield from self._finished()
        connection = next((one for one in self._processes if one not in self._busy), None) or self._start()
        part = Part.in_folder(self._folder, source, number)
        connection.send((part, self._dealt(source, number), source, number))
        self._busy[connection] = source, number

    def rest(self) -> Iterator[tuple[Part, Facts]]:
        """Yield the parts that are still being made, when they are finished."""
        while self._busy:
            yield from self._finished()

    def _dealt(self, source: int, number: int) -> Path:
        return self._folder / f"rows-{source:03d}-{number:06d}"

    def _finished(self) -> Iterator[tuple[Part, Facts]]:
        """Wait until something is told; yield what is finished, and raise what a process raised."""
        for connection in wait(list(self._busy)):
            assert isinstance(connection, Connection)
            try:
                told = connection.recv()
            except EOFError:
                how = _wait_for(self._processes.pop(connection))
                raise StageFailed(f"a process that checked rows ended ({how})") from None
            if isinstance(told, Exception):
                raise self._first_refused(connection, told)
            if isinstance(told, int):
                self._progress(told)
                continue
            del self._busy[connection]
            yield told

    def _first_refused(self, connection: Connection, error: Exception) -> Exception:
        """Return what one process alone would have raised: the error of the first part that has one."""
        place = self._busy.pop(connection)
        for earlier in sorted((one for one in self._busy if self._busy[one] < place), key=self._busy.__getitem__):
            told = 0
            while isinstance(told, int):
                try:
                    told = earlier.recv()
                except EOFError:
                    break
            if isinstance(told, Exception):
                return told
        return error

    def _start(self) -> Connection:
        here, there = Pipe()
        sys.stdout.flush()  # else both write what is in the buffers
        sys.stderr.flush()
        parent = os.getpid()
        process = os.fork()  # a job of the local engine may have no child by multiprocessing
        if process == 0:
            try:
                here.close()
                _work(there, self._sifter, parent)
            finally:
                os._exit(1)  # nothing that the stage's own process has begun is ended here
        there.close()  # else nobody would see the process end
        self._processes[here] = process
        return here


def _work(connection: Connection, sifter: Sifter, parent: int) -> None:
    """Check parts as they come, until the process that sends them ends this one."""
    die_with_parent()
    if os.getppid() != parent:
        return
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    told = sifter.drawn

    def progress(drawn: int) -> None:
        nonlocal told
        connection.send(drawn - told)
        told = drawn

    sifter.progress = progress
    while True:
        part, dealt, source, number = connection.recv()
        try:
            facts = sifter.part(part, _rows(dealt), source, number)
        except Exception as error:  # the process boundary: the stage's own raises it
            traceback.print_exc()
            sys.stderr.flush()
            connection.send(_carried(error))
        else:
            progress(sifter.drawn)
            connection.send((part, facts))


def _rows(path: Path) -> Iterator[SourceRow | BadRow]:
    """Yield the rows of a file that the stage's own process wrote, and remove it."""
    with path.open("rb") as stream:
        path.unlink()
        while stream.peek(1):
            yield from pickle.load(stream)


def _carried(error: Exception) -> Exception:
    """Return an error as another process can take it: the same, or one that says the same."""
    try:
        same: Exception = pickle.loads(pickle.dumps(error))
    except Exception:  # whatever an operator raised may hold whatever it likes
        kind = InputError if isinstance(error, InputError) else StageFailed
        return kind(str(error) if isinstance(error, PosttrainError) else f"{type(error).__name__}: {error}")
    return same


def _wait_for(process: int) -> str:
    """Wait until a process has ended, and return how."""
    try:
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    except ChildProcessError:  # somebody else waited for it
        return "killed or ended"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
