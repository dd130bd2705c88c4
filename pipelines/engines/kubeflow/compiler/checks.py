"""Checks of a pipeline that kfp omits: cycles, names and counts. Imports no kfp."""

from __future__ import annotations

from collections import Counter
from graphlib import CycleError, TopologicalSorter

from components.contract.errors import InputError
from pipelines.engines.kubeflow.names import END, PLAN, approval_task, task_name
from pipelines.recipe.recipe import Recipe

MAX_RETRIES = 20
MAX_NAME_LENGTH = 128
"""Of the tasks of a pipeline; a pod's name has 63 characters, of which Kubeflow keeps the beginning."""


def check(recipe: Recipe) -> None:
    """Raise InputError with everything that is invalid in a pipeline, one line each."""
    problems = [*_circles(recipe), *_names(recipe), *_counts(recipe)]
    if problems:
        raise InputError("\n".join(f"recipe {recipe.name!r}: {problem}" for problem in problems))


def _circles(recipe: Recipe) -> list[str]:
    known = {stage.name for stage in recipe.stages}
    unknown = [
        f"stage {stage.name!r} waits for {name!r}, which is not a stage"
        for stage in recipe.stages
        for name in stage.after
        if name not in known
    ]
    try:
        TopologicalSorter({stage.name: stage.after for stage in recipe.stages}).prepare()
    except CycleError as error:
        return [*unknown, f"stages wait for one another in a circle: {' -> '.join(reversed(error.args[1]))}"]
    return unknown


def _names(recipe: Recipe) -> list[str]:
    tasks = [PLAN, END]
    for stage in recipe.stages:
        tasks += [task_name(stage.name), *([approval_task(stage.name)] if stage.approve else [])]
    twice = [
        f"two tasks would be called {name!r}; rename a stage" for name, count in Counter(tasks).items() if count > 1
    ]
    long = [f"task {name!r}: longer than {MAX_NAME_LENGTH} characters" for name in tasks if len(name) > MAX_NAME_LENGTH]
    return twice + long


def _counts(recipe: Recipe) -> list[str]:
    found = [] if recipe.stages else ["no stages are left to run"]
    for stage in recipe.stages:
        if not 0 <= stage.retry.retries <= MAX_RETRIES:
            found.append(f"stage {stage.name!r}: {stage.retry.retries} retries, expected 0 to {MAX_RETRIES}")
        if stage.timeout_seconds is not None and stage.timeout_seconds <= 0:
            found.append(f"stage {stage.name!r}: a timeout of {stage.timeout_seconds:g} s")
        pool = recipe.pools[stage.pool]
        if min(pool.cpus, pool.nodes) < 1 or pool.gpus < 0 or pool.memory_gib <= 0:
            found.append(f"stage {stage.name!r}: pool {stage.pool!r} gives it nothing to run on")
    return found
