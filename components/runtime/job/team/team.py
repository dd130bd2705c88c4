"""The other ranks of a job, as its first rank starts and sees them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

from components.contract.errors import InputError, PosttrainError, StageFailed
from components.contract.job import Job
from components.contract.terminal import print_error
from components.runtime.job.rendezvous import COLLECTIVE_SECONDS, RankPlace, Rendezvous, collective_wait
from components.runtime.job.team.blame import elsewhere, is_consequence, is_timeout
from components.runtime.job.team.life import Silence, place_in_traceback
from components.runtime.job.team.output import RankOutput
from components.runtime.system.ends import cause_of_end

END_SECONDS = 60.0
"""How long the other ranks may take to end once the component is done."""
NEWS_SECONDS = 5.0
"""How long a broken connection may precede the end of the process that caused it."""
HANG_SECONDS = 20.0
"""How long the first rank may take to notice by itself that another has ended."""
POLL_SECONDS = 0.1
GAVE_UP = (-signal.SIGABRT, -signal.SIGTERM)
"""Ends of ranks that follow from another's: NCCL's watchdog aborts, launchers terminate."""

OnDeath = Callable[[str], str]
"""Records how a rank died; returns the recorded message."""


class Team:
    """The other ranks, as seen by the first."""

    def __init__(self, job: Job, world: int, on_death: OnDeath) -> None:
        self.job, self._on_death = job, on_death
        self._left = Event()
        self._children: list[subprocess.Popen[bytes]] = []
        self._outputs: list[RankOutput] = []
        self._silent = ""
        """The failure of a rank that fell silent."""
        self._environment = dict(os.environ)
        place = RankPlace.of_environment()
        if place is not None:
            self.rendezvous = Rendezvous.join(place)
            self._begin_watch()
            return
        if job.resources.nodes > 1:
            raise InputError(
                f"stage {job.stage!r} trains on {job.resources.nodes} nodes: start it by torchrun on each of them"
            )
        self.rendezvous, port = Rendezvous.host(world)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        os.environ.update(self.rendezvous.place.environment(port, os.getpid()))  # DeepSpeed reads it, too
        self._children = [self._start(RankPlace(rank, world, rank, 0), port) for rank in range(1, world)]
        self._outputs = [RankOutput(rank, child) for rank, child in enumerate(self._children, 1)]
        self._begin_watch()

    def _begin_watch(self) -> None:
        self._silence = Silence(self.rendezvous.another_connection(), self.rendezvous.place.world)
        self._watcher = Thread(target=self._watch, name="posttrain-ranks", daemon=True)
        self._watcher.start()

    def _start(self, place: RankPlace, port: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "components.runtime.job.process", "-", "--parent", str(os.getpid())]
        environment = {**os.environ, **place.environment(port, os.getpid())}
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
        )
        assert child.stdin is not None
        child.stdin.write(self.job.model_dump_json().encode())
        child.stdin.close()
        return child

    def _watch(self) -> None:
        """End this process if it does not itself notice that a rank has ended, or fallen silent."""
        while not self._left.wait(POLL_SECONDS):
            self._look_for_silence()
            death = self._death() if self._children else self._silent
            if death and not self._left.wait(HANG_SECONDS):
                try:
                    said = self._on_death(death)
                    print_error(f"stage {self.job.stage!r}: {said}")
                finally:
                    os._exit(1)

    def _look_for_silence(self) -> None:
        """Remember a rank that fell silent, and kill it if it is here: its peers then notice at once."""
        if self._silent or not self._silence.is_due():
            return
        with suppress(RuntimeError):  # the server is gone: the launcher ends this process, too
            if found := self._silence.look():
                rank, self._silent = found
                if self._children:
                    self._children[rank - 1].kill()

    def _death(self) -> str | None:
        """Return which rank failed, and how: the cause, not the peers that lost their connection to it.

        A rank that exits early has failed, whatever its exit code.
        """
        if self._silent:
            return self._silent
        world = self.rendezvous.place.world
        codes = {rank: child.poll() for rank, child in enumerate(self._children, 1)}
        ended = {
            rank: code for rank, code in codes.items() if code or (code == 0 and not self.rendezvous.has_finished(rank))
        }
        killed = [rank for rank, code in ended.items() if code < 0 and code not in GAVE_UP]
        errors = self.rendezvous.errors()
        causes = [found for found in errors if not is_consequence(found[1])]
        for rank in killed[:1]:
            return f"rank {rank} of {world} {cause_of_end(ended[rank])}{self._last_words(rank)}"
        for rank, message in (causes or errors)[:1]:
            return f"rank {rank} of {world}: {message}"
        for rank, code in ended.items():
            return f"rank {rank} of {world} {cause_of_end(code)}{self._last_words(rank)}"
        return None

    def _last_words(self, rank: int) -> str:
        words = self._outputs[rank - 1].last_words()
        return f"; its last words: {words}" if words else ""

    def explained(self, error: Exception) -> Exception:
        """Return the failure of another rank if it broke the connection, else the error itself."""
        if isinstance(error, PosttrainError) or not is_consequence(f"{type(error).__name__}: {error}"):
            return error
        deadline = time.monotonic() + NEWS_SECONDS
        while (death := self._death()) is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        if death and not (is_timeout(death) and is_timeout(str(error))):
            return StageFailed(f"stage {self.job.stage!r}: {death}")
        return self._waited_in_vain(error) if is_timeout(str(error)) else error

    def _waited_in_vain(self, error: Exception) -> Exception:
        """Return a time-out of the first rank, which its peers report as well, by the ranks that did not come."""
        with suppress(RuntimeError):
            self._silence.look()
        waiting = place_in_traceback(error)
        said = elsewhere(waiting, self._silence.places(), self.rendezvous.place.world)
        seconds = collective_wait().total_seconds()
        return StageFailed(
            f"stage {self.job.stage!r}: ranks waited {seconds:g} s for one another in vain ({COLLECTIVE_SECONDS})"
            f"{f': {said}' if said else f', at {waiting}'}"
        )

    def wait(self) -> None:
        """Wait for the ranks that were started here; raise StageFailed if one failed or does not end."""
        for child in self._children:
            try:
                child.wait(END_SECONDS)
            except subprocess.TimeoutExpired as stuck:
                raise StageFailed(f"stage {self.job.stage!r}: a rank did not end with the component") from stuck
        if death := self._death():
            raise StageFailed(f"stage {self.job.stage!r}: {death}")

    def end(self) -> None:
        """Leave the group and kill every rank that was started here and still runs."""
        from torch import distributed

        self._left.set()
        self._watcher.join()  # a thread in a call of the store would abort the interpreter's exit
        for child in self._children:
            if child.poll() is None:
                child.kill()
            child.wait()
        if distributed.is_initialized():
            distributed.destroy_process_group()
        os.environ.clear()
        os.environ.update(self._environment)
