"""How long a run of a pipeline may take, and how long the cluster keeps one that has ended. Imports no kfp.

Both are safety nets of the run as a whole: a stage has its own time limit, and the store keeps what a run made.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import TypeAdapter, ValidationError

from components.contract.errors import InputError
from components.contract.job import Retry
from pipelines.engines.shared.attempt import STARTUP_SECONDS
from pipelines.engines.shared.pod import SCHEDULE_SECONDS
from pipelines.recipe.grammar import Timeout
from pipelines.recipe.recipe import Recipe
from pipelines.recipe.stage import Stage

KEEP = "POSTTRAIN_KUBEFLOW_KEEP"
DEADLINE = "POSTTRAIN_KUBEFLOW_DEADLINE"
KEEP_SECONDS = 3 * 86_400
"""How long the pods of a run that has ended, and their logs, stay to be looked at."""
SLACK_SECONDS = 86_400
"""For the first and the last task, and a cluster that is away for some hours."""
LONGEST_SECONDS = 366 * 86_400
"""Assumed duration of attempts without a timeout; nothing waits longer."""


@dataclass(frozen=True)
class Lifetime:
    """Limits of a run, in seconds; None leaves Kubeflow's own."""

    keep: int = KEEP_SECONDS
    deadline: int | None = None

    @classmethod
    def of(cls, recipe: Recipe, environ: Mapping[str, str] = os.environ) -> Lifetime:
        """Return the limits that the environment names, else those of the recipe.

        A run has a deadline by itself where all its stages and questions have time limits: what they take together
        along the longest path, with every retry. Raises InputError for what is no duration.
        """
        keep, deadline = (_duration(name, environ) for name in (KEEP, DEADLINE))
        if deadline is None and (longest := longest_seconds(recipe)) is not None:
            deadline = min(math.ceil(longest) + SLACK_SECONDS, LONGEST_SECONDS)
        return cls(KEEP_SECONDS if keep is None else keep, deadline)


def attempts_seconds(retry: Retry, seconds: float) -> int:
    """Return what all attempts of at most `seconds` may take together: to get a node, to start, to work, to pause."""
    attempt = math.ceil(seconds) + STARTUP_SECONDS + SCHEDULE_SECONDS
    return (retry.retries + 1) * attempt + math.ceil(sum(map(retry.pause_before, range(1, retry.retries + 1))))


def longest_seconds(recipe: Recipe) -> float | None:
    """Return what the longest path of stages may take; None if one of them has no limit."""
    ends: dict[str, float] = {}
    for stage in recipe.stages:  # in an order in which inputs come first
        if (own := _own_seconds(stage)) is None:
            return None
        ends[stage.name] = max((ends[name] for name in stage.after), default=0.0) + own
    return max(ends.values(), default=0.0)


def _own_seconds(stage: Stage) -> float | None:
    asked = 0.0 if stage.approve is None else stage.approve.timeout_seconds
    if asked is None or stage.timeout_seconds is None:
        return None
    return asked + attempts_seconds(stage.retry, stage.timeout_seconds)


def _duration(variable: str, environ: Mapping[str, str]) -> int | None:
    text = environ.get(variable)
    if not text:
        return None
    try:
        return math.ceil(TypeAdapter(Timeout).validate_python(text))
    except ValidationError as error:
        why = str(error.errors()[0]["msg"]).removeprefix("Value error, ")
        raise InputError(f"{variable}={text!r}: {why}") from None
