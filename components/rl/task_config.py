"""Settings of operators that optimise some tasks of a batch, each in its own way. Does not import torch."""

from __future__ import annotations

from pydantic import Field

from components.contract.params import Params


class TaskConfig(Params):
    """Which tasks, and how much they weigh."""

    domains: tuple[str, ...] = ()
    """Domains whose responses it optimises; it leaves all others as they are. Empty: all domains."""
    task_weight: float = Field(default=1.0, gt=0)
    """Weight of these domains' loss in the sum over tasks."""
