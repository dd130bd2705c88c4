"""A third-party component that several ranks run together: in each step they add up their numbers."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import Field

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.memory import GIB, Knob, MemoryEstimate, Need
from components.contract.params import Params


class AddParams(Params):
    """How many steps, and how a rank misbehaves once."""

    steps: int = Field(default=3, ge=1)
    """Steps, with a checkpoint after each but the last."""
    once: str = ""
    """File that remembers that a rank has misbehaved."""
    victim: int = 1
    """Which rank misbehaves."""
    how: str = ""
    """kill, raise, leave, hunger, stop or wait: what it does at the second step."""


def add(context: Any) -> None:
    """Sum over the steps of (step * the sum over ranks of rank + 1)."""
    import torch
    from torch import distributed

    params, rank = context.params, distributed.get_rank() if distributed.is_initialized() else 0
    resumed = context.resume()
    step, total = json.loads((resumed / "state.json").read_text()) if resumed else (0, 0)
    if resumed:  # each rank's part, and of what all of them wrote the first one's
        world = distributed.get_world_size() if distributed.is_initialized() else 1
        assert sorted(path.name for path in resumed.glob("part-*")) == [f"part-{other}" for other in range(world)]

    def write(folder: Path) -> Callable[[], None]:
        position = step, total + 1_000_000 * rank

        def finish() -> None:
            _write(folder / "state.json", position)
            _write(folder / f"part-{rank}", position)

        return finish

    while step < params.steps:
        if step == 1 and params.how and rank == params.victim and not Path(params.once).exists():
            while not context.checkpoint_due(0.0):  # it is being written
                time.sleep(0.01)
            Path(params.once).touch()
            _misbehave(params.how)
        value = torch.tensor(rank + 1)
        if distributed.is_initialized():
            distributed.all_reduce(value)
        step, total = step + 1, total + (step + 1) * int(value)
        context.log(step, total=total)
        if step < params.steps:
            context.checkpoint(step, write)
    _write(context.output("model") / "total.json", total)
    (context.scratch / f"rank-{rank}").touch()
    context.headline(total=float(total), rows=float(len(context.history())))


def _misbehave(how: str) -> None:
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "wait":
        signal.pause()
    if how == "kill":
        print("about to\x1b[2J fall", flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "leave":
        os._exit(0)
    if how == "hunger":
        import torch

        torch.empty(4 << 50, dtype=torch.uint8)
    raise RuntimeError("the card fell off")


def _write(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value))


def memory(params: AddParams, model: Any, resources: Any) -> MemoryEstimate:
    """Return a GiB for each step."""

    def needs(steps: int) -> tuple[Need, ...]:
        return (Need("sums", steps * GIB),)

    return MemoryEstimate(needs(params.steps), 1, knobs=(Knob("steps: 1", lambda: needs(1)),))


ADD = Component(
    name="add-ranks",
    summary="Add up over ranks",
    inputs={},
    outputs={"model": Port(type=ArtifactType.MODEL, doc="the sum")},
    params=AddParams,
    run="posttrain_ranks:add",
    backends=frozenset({"trainer"}),
    memory=memory,
    image="cpu",
    metrics={"total": "the sum", "rows": "logged rows"},
)
