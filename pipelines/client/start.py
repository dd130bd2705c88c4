"""posttrain.run: a recipe from a notebook or a script, on any engine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from pipelines.client.endings import CONTINUE, succeeded
from pipelines.client.errors import RunInterrupted, told_plainly
from pipelines.client.plan import read_recipe
from pipelines.client.progress import make_view
from pipelines.client.run import Run
from pipelines.engines.registry import DEFAULT
from pipelines.runs.default_store import chosen_store


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
    from pipelines.engines.engine import RunOptions
    from pipelines.engines.start import start_run

    if jobs is not None and jobs < 1:
        raise InputError(f"jobs={jobs}: expected a number of cores, 1 or more")
    loaded = read_recipe(recipe, set, seed)
    opened = chosen_store(None if store is None else str(store))
    options = RunOptions(new=new, jobs=jobs, containers=containers)
    try:
        _, result = start_run(loaded, opened, engine=engine, options=options, view=partial(make_view, shown=progress))
    except KeyboardInterrupt:  # before its first stage or after its last one
        raise RunInterrupted(f"stopped; {CONTINUE}") from None
    return succeeded(opened, result)
