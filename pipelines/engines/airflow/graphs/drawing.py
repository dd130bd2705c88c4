"""A recipe's graph as plain data: all that its DAG needs while nothing runs. Imports no Airflow and no recipe."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Question:
    """What a person is asked before a stage."""

    message: str
    timeout_seconds: float | None
    on_timeout: str


@dataclass(frozen=True)
class StageDrawing:
    """A stage's task, and the question before it."""

    name: str
    title: str
    docs: str
    component: str
    after: list[str]
    condition: str | None
    """Its `when`, as the label of an edge."""
    depends: list[str]
    """The stages that its condition names."""
    groups: list[tuple[str, str]]
    """(id, label) of the groups that contain it, outermost first."""
    pool: str
    slots: int
    pod: bool
    """Whether it is driven on the cluster; otherwise it is a process of the worker."""
    retries: int
    """Of a process on the worker; one on the cluster is tried again by its driver."""
    backoff_seconds: float
    max_backoff_seconds: float
    limit_seconds: float | None
    """Of a process on the worker, with what it has for starting."""
    tracked: bool
    """Whether it makes what is an asset of Airflow."""
    registered: list[tuple[str, str]]
    """(name, alias) of the models that it registers."""
    question: Question | None


@dataclass(frozen=True)
class Times:
    """A recipe's schedule."""

    cron: tuple[str, str] | None
    """Expression and time zone."""
    on: list[tuple[str, str]]
    """(kind, text) of what starts a run when it changes."""
    poll_seconds: float


@dataclass(frozen=True)
class Drawing:
    """A recipe's DAG."""

    recipe: str
    path: str
    title: str
    summary: str
    docs: str
    tags: list[str]
    times: Times | None
    form: dict[str, dict[str, Any]]
    """Parameter -> the arguments of Airflow's Param."""
    stages: list[StageDrawing]
