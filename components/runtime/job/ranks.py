"""The ranks of a job that trains on several processes.

The first rank is the launcher: it alone resolves, locks, gates and commits. The others join for the component's run,
with the same inputs, parameters and partial checkpoint; each stores its part of further checkpoints, and their outputs
are discarded.

Not torch elastic's start_processes: it starts all ranks from 0, while here rank 0 is the launcher itself; it gives
ranks no standard input, through which they get the job; and it counts a rank that exits early with code 0 as a success.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from components.contract.component import Component
from components.contract.errors import InputError, PosttrainError
from components.contract.job import Job
from components.contract.params import Params
from components.contract.registry import components
from components.contract.uploaded import use as use_uploads
from components.runtime.checkpoints.shards import Shards
from components.runtime.inputs.resolve import Upstream
from components.runtime.job.following import FollowingStage
from components.runtime.job.progress import Progress
from components.runtime.job.rendezvous import OWN, RankPlace, Rendezvous
from components.runtime.job.team.life import showing_life
from components.runtime.job.team.team import END_SECONDS, OnDeath, Team
from components.runtime.ledger.operator_code import use_code
from components.runtime.store import open_store
from components.runtime.system.determinism import deterministic_torch


def ranks_of(job: Job, component: Component) -> int:
    """Return how many processes run the component together; 1 if it does not train."""
    return job.resources.world_size if "trainer" in component.backends else 1


@contextmanager
def leading(
    job: Job, component: Component, order: dict[str, Any], on_death: OnDeath, *, device: Callable[[], str]
) -> Iterator[Shards | None]:
    """Run the component inside this context: the other ranks run it, too, and have ended when it exits.

    Yields how their checkpoints come together; None if there are no others.

    Raises StageFailed when one of them ends early, however it ends; if the first rank would then wait forever,
    `on_death` records the failure and the process ends.
    """
    world = ranks_of(job, component)
    if world == 1:
        yield None
        return
    team = Team(job, world, on_death)
    try:
        team.rendezvous.report_node_ready()
        team.rendezvous.publish(order)
        team.rendezvous.gather(job.resources, cuda=device() == "cuda")
        yield team.rendezvous.shards()
        team.wait()
    except Exception as error:
        raise team.explained(error) from error
    finally:
        team.end()


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
    use_uploads(job.uploaded, store.fetch_or_set_aside)
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
        module, _, name = component.run.partition(":")
        function = getattr(importlib.import_module(module), name)
        with showing_life(rendezvous.another_connection(), rendezvous.place.rank):
            rendezvous.gather(job.resources, cuda=stage.device == "cuda")
            with closing(stage), deterministic_torch(job.resources):
                stage.restore(rendezvous.shards())
                _work(function, stage)
        rendezvous.finish()
    from torch import distributed

    distributed.destroy_process_group()


def _work(function: Callable[[FollowingStage], None], stage: FollowingStage) -> None:
    try:
        function(stage)
        stage.finish_checkpoints()
    except Exception:
        stage.leave_ranks()
        raise
