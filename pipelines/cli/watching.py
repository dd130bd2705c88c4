"""posttrain run --watch: runs of a recipe by its schedule, or whenever its inputs change, in the foreground."""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.runtime.ledger.approvals import open_question
from components.runtime.ledger.records import run_key
from pipelines.cli.stores import store_of
from pipelines.engines.registry import DEFAULT

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.recipe.recipe import Recipe
    from pipelines.recipe.schedule.section import Schedule
    from pipelines.runs.runs import RunResult
    from pipelines.triggers.record import Trigger


def watch(arguments: argparse.Namespace) -> int:
    """Watch until Ctrl-C; the exit code is 0, or 130 if that stopped a run."""
    from pipelines.engines.watch import Watch

    if arguments.json or arguments.new:
        given = "--json" if arguments.json else "--new"
        raise InputError(f"{given} is for a single run; leave it out with --watch")
    if arguments.engine != DEFAULT:
        keeps = f"posttrain schedule {arguments.recipe} --engine {arguments.engine}"
        raise InputError(f"--watch runs on this machine; engine {arguments.engine} keeps schedules by itself: {keeps}")
    runs = _Runs(arguments, store_of(arguments))
    recipe = runs.recipe()
    return Watch(
        name=_name(recipe),
        schedule=_schedule(recipe),
        store=runs.store,
        start=runs.start,
        resume=runs.resume,
        answered=runs.answered,
        tell=_tell,
    ).run()


@dataclass
class _Runs:
    """The runs of one recipe; its file is read again for each, so that it can be edited meanwhile."""

    arguments: argparse.Namespace
    store: Store

    def recipe(self) -> Recipe:
        from pipelines.recipe.recipe import load_recipe

        return load_recipe(self.arguments.recipe, self.arguments.overrides, seed=self.arguments.seed)

    def start(self, trigger: Trigger) -> RunResult:
        """Run the recipe to its end, as a run of its own."""
        _tell(trigger["text"])
        return self._run(trigger, new=True)

    def resume(self) -> RunResult | None:
        """Go on with the newest run if a trigger started it and it was cut off, stopped, or waits for a person."""
        from components.runtime.ledger.records import end_key, run_key
        from pipelines.plan.plan import build_plan
        from pipelines.runs.runs import new_run_id, unfinished_run

        recipe = self.recipe()
        run = unfinished_run(self.store, build_plan(recipe, self.store.uri, new_run_id(recipe.name)).digest)
        begun = self.store.get(run_key(run)) if run else None
        if run is None or begun is None or "trigger" not in begun:
            return None
        end = self.store.get(end_key(run))
        if end is not None and end["status"] not in ("stopped", "waiting"):
            return None
        _tell(f"going on with run {run}")
        return self._run(begun["trigger"], new=False)

    def answered(self, run_id: str) -> bool:
        """Return whether a person has decided all that a run asked."""
        planned = (self.store.get(run_key(run_id)) or {}).get("stages", ())
        asking = [stage["name"] for stage in planned if stage.get("needs_approval")]
        return not any(open_question(self.store.get, run_id, stage) for stage in asking)

    def _run(self, trigger: Trigger, *, new: bool) -> RunResult:
        from pipelines.engines.engine import RunOptions
        from pipelines.engines.start import start_run
        from pipelines.runs.summary import print_ending

        given = self.arguments
        options = RunOptions(new=new, jobs=given.jobs, containers=given.containers, trigger=trigger)
        _, result = start_run(self.recipe(), self.store, engine=DEFAULT, options=options)
        print_ending(self.store, result)
        return result


def _schedule(recipe: Recipe) -> Schedule:
    """Return the recipe's schedule; without one, a change of what it reads starts a run."""
    from pipelines.engines.refusals import schedule_refusals
    from pipelines.engines.registry import find_engine
    from pipelines.recipe.schedule.section import Schedule
    from pipelines.triggers.inputs import inputs_of

    if refused := schedule_refusals(find_engine(DEFAULT), recipe.schedule):
        raise InputError("\n".join(refused))
    if recipe.schedule is not None:
        return recipe.schedule
    if not (inputs := inputs_of(recipe)):
        raise InputError(
            f"recipe {recipe.name!r} has no 'schedule' and reads nothing from outside the store, so nothing would "
            f"start a run; add one, such as schedule: {{cron: '0 3 * * *'}}"
        )
    return Schedule(on=inputs)


def _name(recipe: Recipe) -> str:
    """Return the watcher's name: of the recipe's file and its overrides."""
    request = "\0".join([str(recipe.path.absolute()), *recipe.overrides])
    return f"{recipe.name}-{hashlib.sha256(request.encode()).hexdigest()[:8]}"


def _tell(text: str) -> None:
    print(f"{datetime.now():%H:%M:%S} {text}", flush=True)
