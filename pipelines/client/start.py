"""posttrain.run and posttrain.fork: a recipe from a notebook or a script, on any engine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from pipelines.client.endings import CONTINUE, succeeded
from pipelines.client.errors import RunInterrupted, told_plainly
from pipelines.client.plan import override_texts, read_recipe
from pipelines.client.progress import make_view
from pipelines.client.run import Run
from pipelines.engines.registry import DEFAULT
from pipelines.runs.default_store import chosen_store

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.recipe.recipe import Recipe


@told_plainly
def run(
    recipe: str | Path,
    *,
    set: Mapping[str, Any] | None = None,
    seed: int | None = None,
    store: str | Path | None = None,
    engine: str = DEFAULT,
    new: bool = False,
    jobs: int | None = None,
    containers: bool = False,
    progress: bool = True,
) -> Run:
    """Run a recipe to its end, or go on with a run of it that was stopped, and return the run.

    `recipe` is a name or a path; `set` changes parameters (`{"rl_steps": 20}`) or any part of it
    (`{"stages.rl.with.group_size": 16}`). `store` is a folder or s3://bucket/prefix, by default $POSTTRAIN_STORE or
    .posttrain/store; `jobs` bounds the cores in use; `new` starts anew beside an unfinished run. Progress is shown in
    the notebook, elsewhere on standard error, or not at all.

    Raises RecipeErrors or InputError before anything has run, RunFailed, ApprovalNeeded, and RunInterrupted for Ctrl-C
    or a notebook's stop button.
    """
    loaded, opened = read_recipe(recipe, set, seed), chosen_store(None if store is None else str(store))
    return _start(loaded, opened, engine, jobs=jobs, new=new, containers=containers, progress=progress)


@told_plainly
def fork(
    run: str | Run,
    at: str,
    *,
    set: Mapping[str, Any] | None = None,
    name: str | None = None,
    store: str | Path | None = None,
    engine: str = DEFAULT,
    new: bool = False,
    jobs: int | None = None,
    containers: bool = False,
    progress: bool = True,
) -> Run:
    """Go on from a checkpoint that a run kept, with changes from there on, and return the new run.

    `at` is STAGE@STEP of a checkpoint that `keep_partial: every N` kept, such as "rl@40"; `name` is what the new run's
    id begins with. The rest is as in `run`. Raises InputError before anything has run, with the nearest checkpoint, or
    with what of the change reaches back before the step.
    """
    from pipelines.runs.find import find_run
    from pipelines.runs.recipe_of import forked_recipe

    opened = run.store if isinstance(run, Run) else chosen_store(None if store is None else str(store))
    run_id = run.id if isinstance(run, Run) else find_run(opened, run)
    loaded = forked_recipe(opened, run_id, override_texts(set), {"at": at, "name": name})
    return _start(loaded, opened, engine, jobs=jobs, new=new, containers=containers, progress=progress)


def _start(
    recipe: Recipe, store: Store, engine: str, *, jobs: int | None, new: bool, containers: bool, progress: bool
) -> Run:
    from pipelines.engines.engine import RunOptions
    from pipelines.engines.start import start_run

    if jobs is not None and jobs < 1:
        raise InputError(f"jobs={jobs}: expected a number of cores, 1 or more")
    options = RunOptions(new=new, jobs=jobs, containers=containers)
    try:
        _, result = start_run(recipe, store, engine=engine, options=options, view=partial(make_view, shown=progress))
    except KeyboardInterrupt:  # before its first stage or after its last one
        raise RunInterrupted(f"stopped; {CONTINUE}") from None
    return succeeded(store, result)
