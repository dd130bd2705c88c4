"""The ranks of a job that trains on several processes.

The first rank is the launcher: it alone resolves, locks, gates and commits. The others join for the component's run,
with the same inputs, parameters and partial checkpoint, and their writes are discarded.

Not torch elastic's start_processes: it starts all ranks from 0, while here rank 0 is the launcher itself; it gives
ranks no standard input, through which they get the job; and it counts a rank that exits early with code 0 as a success.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import Event, Thread
from typing import Any

from components.contract.component import Component
from components.contract.errors import InputError, PosttrainError, StageFailed
from components.contract.job import Job
from components.contract.params import Params
from components.contract.registry import components
from components.contract.terminal import print_error
from components.runtime.inputs.resolve import Upstream
from components.runtime.job.following import FollowingStage
from components.runtime.job.progress import Progress
from components.runtime.job.rendezvous import OWN, RankPlace, Rendezvous
from components.runtime.ledger.operator_code import use_code
from components.runtime.store import open_store
from components.runtime.system.determinism import deterministic_torch
from components.runtime.system.ends import cause_of_end

END_SECONDS = 60.0
"""How long the other ranks may take to end once the component is done."""
NEWS_SECONDS = 5.0
"""How long a broken connection may precede the end of the process that caused it."""
HANG_SECONDS = 20.0
"""How long the first rank may take to notice by itself that another has ended."""
POLL_SECONDS = 0.1

OnDeath = Callable[[str], str]
"""Records how a rank died; returns the recorded message."""


def ranks_of(job: Job, component: Component) -> int:
    """Return how many processes run the component together; 1 if it does not train."""
    return job.resources.world_size if "trainer" in component.backends else 1


@contextmanager
def leading(
    job: Job, component: Component, order: dict[str, Any], on_death: OnDeath, *, device: Callable[[], str]
) -> Iterator[None]:
    """Run the component inside this context: the other ranks run it, too, and have ended when it exits.

    Raises StageFailed when one of them ends early, however it ends; if the first rank would then wait forever,
    `on_death` records the failure and the process ends.
    """
    world = ranks_of(job, component)
    if world == 1:
        yield
        return
    team = _Team(job, world, on_death)
    try:
        team.rendezvous.report_node_ready()
        team.rendezvous.publish(order)
        team.rendezvous.gather(cuda=device() == "cuda")
        yield
        team.wait()
    except Exception as error:
        raise team.explained(error) from error
    finally:
        team.end()


class _Team:
    """The other ranks, as seen by the first."""

    def __init__(self, job: Job, world: int, on_death: OnDeath) -> None:
        self.job, self._on_death = job, on_death
        self._left = Event()
        self._children: list[subprocess.Popen[bytes]] = []
        self._environment = dict(os.environ)
        place = RankPlace.of_environment()
        if place is not None:
            self.rendezvous = Rendezvous.join(place)
            return
        if job.resources.nodes > 1:
            raise InputError(
                f"stage {job.stage!r} trains on {job.resources.nodes} nodes: start it by torchrun on each of them"
            )
        self.rendezvous, port = Rendezvous.host(world)
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        os.environ.update(self.rendezvous.place.environment(port, os.getpid()))  # DeepSpeed reads it, too
        self._children = [self._start(RankPlace(rank, world, rank, 0), port) for rank in range(1, world)]
        Thread(target=self._watch, daemon=True).start()

    def _start(self, place: RankPlace, port: int) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "components.runtime.job.process", "-", "--parent", str(os.getpid())]
        environment = {**os.environ, **place.environment(port, os.getpid())}
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr.fileno(), env=environment)
        assert child.stdin is not None
        child.stdin.write(self.job.model_dump_json().encode())
        child.stdin.close()
        return child

    def _watch(self) -> None:
        """End this process if it does not itself notice that a rank has ended."""
        while not self._left.wait(POLL_SECONDS):
            if (death := self._death()) and not self._left.wait(HANG_SECONDS):
                try:
                    said = self._on_death(death)
                    print_error(f"stage {self.job.stage!r}: {said}")
                finally:
                    os._exit(1)

    def _death(self) -> str | None:
        """Return which rank failed, and how; one that exits early has failed, whatever its exit code."""
        world = self.rendezvous.place.world
        codes = {rank: child.poll() for rank, child in enumerate(self._children, 1)}
        ended = {
            rank: code for rank, code in codes.items() if code or (code == 0 and not self.rendezvous.has_finished(rank))
        }
        killed = [rank for rank, code in ended.items() if code < 0]
        if killed:
            return f"rank {killed[0]} of {world} {cause_of_end(ended[killed[0]])}"
        if first_error := self.rendezvous.first_error():
            return f"rank {first_error[0]} of {world}: {first_error[1]}"
        return next((f"rank {rank} of {world} {cause_of_end(code)}" for rank, code in ended.items()), None)

    def explained(self, error: Exception) -> Exception:
        """Return the failure of another rank if it broke the connection, else the error itself."""
        if isinstance(error, PosttrainError):
            return error
        deadline = time.monotonic() + NEWS_SECONDS
        while (death := self._death()) is None and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return StageFailed(f"stage {self.job.stage!r}: {death}") if death else error

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
        for child in self._children:
            if child.poll() is None:
                child.kill()
            child.wait()
        if distributed.is_initialized():
            distributed.destroy_process_group()
        os.environ.clear()
        os.environ.update(self._environment)


@contextmanager
def releasing(job: Job, place: RankPlace | None) -> Iterator[None]:
    """Release ranks that an external launcher started if the first rank exits this context without leading them."""
    rendezvous = None
    if place is not None and ranks_of(job, components().get(job.component)) > 1:
        rendezvous = Rendezvous.join(place)
    try:
        yield
    finally:
        if rendezvous is not None:
            rendezvous.publish_nothing()
    if rendezvous is not None:
        rendezvous.wait_for_others(END_SECONDS)


def follow(job: Job, place: RankPlace) -> int:
    """Take part in a job as a rank other than the first; return the process's exit code."""
    component = components().get(job.component)
    world = ranks_of(job, component)
    if world == 1:
        return 0  # the first rank does the whole job
    rendezvous = Rendezvous.join(place)
    try:
        order = rendezvous.wait()
        if order is not None:
            _take_part(job, component, order, rendezvous)
    except Exception as error:  # the process boundary: the first rank reports it to people
        rendezvous.report_error(
            str(error) if isinstance(error, PosttrainError) else f"{type(error).__name__}: {error}"[:500]
        )
        traceback.print_exc()
        return 1
    finally:
        rendezvous.leave()
    return 0


def check_place(job: Job, place: RankPlace | None) -> None:
    """Raise InputError if a launcher started a different number of processes than the job trains on."""
    world = ranks_of(job, components().get(job.component))
    if place is not None and OWN not in os.environ and world not in (1, place.world):
        resources = job.resources
        raise InputError(
            f"stage {job.stage!r} trains on {world} processes, {resources.ranks_per_node} on each of "
            f"{resources.nodes} nodes, but {place.world} were started"
        )


def _take_part(job: Job, component: Component, order: dict[str, Any], rendezvous: Rendezvous) -> None:
    import importlib

    store = open_store(job.store)
    use_code(store, job.code)
    if rendezvous.place.local_rank:
        rendezvous.wait_for_node()
    resolved = {port: [(digest, source) for digest, source in found] for port, found in order["inputs"].items()}
    inputs = Upstream(job, component, store).fetch(resolved, partial(print, file=sys.stderr, flush=True))
    params: Params = component.params.model_validate(order["params"])
    with tempfile.TemporaryDirectory(prefix="posttrain-rank-") as scratch:
        stage = FollowingStage(
            job,
            component,
            params,
            fingerprint=order["fingerprint"],
            inputs=inputs,
            store=store,
            progress=Progress(job.stage, lambda event: None),
            scratch=Path(scratch),
        )
        if not rendezvous.place.local_rank:
            rendezvous.report_node_ready()
        if stage.resumed_from != order["resumed_from"]:
            raise StageFailed(
                f"it found the partial checkpoint of step {stage.resumed_from}, "
                f"and the first rank that of step {order['resumed_from']}"
            )
        module, _, name = component.run.partition(":")
        function = getattr(importlib.import_module(module), name)
        rendezvous.gather(cuda=stage.device == "cuda")
        with deterministic_torch(job.resources):
            function(stage)
        rendezvous.finish()
    from torch import distributed

    distributed.destroy_process_group()
