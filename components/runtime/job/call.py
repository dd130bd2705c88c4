"""The call of a component's `run`, on all processes of the job, from the checkpoint that all of them find whole."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from components.contract.component import Component
from components.contract.errors import StageFailed
from components.contract.job import Job
from components.runtime.job.ranks import leading
from components.runtime.job.stage import RunningStage
from components.runtime.job.team.team import OnDeath
from components.runtime.system.determinism import deterministic_torch


def call(
    stage: RunningStage,
    component: Component,
    job: Job,
    order: dict[str, Any],
    on_start: Callable[[], None],
    on_death: OnDeath,
) -> None:
    """Restore the last checkpoint, and run the component until its last one and all required outputs are written.

    Further processes of the job get `order`. `on_start` is called when the checkpoint is restored; the death of a
    process is passed to `on_death`.

    Raises:
        StageFailed: it called exit, or wrote no output at a required port.
    """
    try:
        with leading(job, component, order, on_death, device=lambda: stage.device) as shards:
            stage.restore(shards)
            on_start()
            with _models(job, component):
                module, _, name = component.run.partition(":")
                getattr(importlib.import_module(module), name)(stage)
                stage.finish_checkpoints()
    except Exception:
        stage.leave_ranks()
        raise
    except SystemExit as stop:  # its code may be 0, which would look like success
        raise StageFailed(f"stage {job.stage!r}: {component.name} called exit({stop.code!r})") from stop
    missing = [port for port, info in component.outputs.items() if not info.optional]
    if missing := [port for port in missing if port not in stage.written()]:
        raise StageFailed(f"stage {job.stage!r}: {component.name} wrote no {', '.join(missing)}")


def _models(job: Job, component: Component) -> AbstractContextManager[None]:
    """Return the context of the component's work with models, if it does any."""
    return deterministic_torch(job.resources) if component.backends else nullcontext()
