"""The command move: a run ends at its next step where it is, and goes on from there on another engine."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.contract.terminal import visible
from components.runtime.checkpoints.moves import (
    State,
    ask,
    asked,
    fingerprints_begun,
    hand_over,
    withdraw,
    words,
)
from components.runtime.store import StoreLocked
from pipelines.cli.cheapest import on_cheapest_pools
from pipelines.cli.stores import store_of
from pipelines.runs.find import find_run
from pipelines.runs.recipe_of import recipe_path

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.plan.forecast import StageForecast
    from pipelines.recipe.recipe import Recipe

DIGEST_LENGTH = 12


def move(arguments: argparse.Namespace) -> int:
    """End a run at its next step and go on elsewhere; the exit code is the outcome there."""
    from pipelines.cli.stopping import stop_once

    stop_once()
    store = store_of(arguments)
    run_id = find_run(store, arguments.run)
    with ExitStack() as stack:
        try:
            stack.enter_context(store.lock(f"move-{run_id}", wait_seconds=1.0))
        except StoreLocked as error:
            raise InputError(f"move: run {run_id} is being moved already: {error}") from error
        return _move(arguments, store, run_id)


def _move(arguments: argparse.Namespace, store: Store, run_id: str) -> int:
    """Move a run, as the holder of the lock of its moves."""
    from pipelines.cli.runs import run_recipe
    from pipelines.engines.registry import find_engine
    from pipelines.engines.start import plan_run

    to = arguments.to
    refuse_ended(store, run_id)
    recipe = moved_recipe(store, run_id, arguments.overrides, where=arguments.recipe)
    find_engine(to).check_machine()
    if arguments.cheapest:
        recipe = on_cheapest_pools(recipe, store, engine=to, same_work=True)
    _, stages, _ = plan_run(recipe, store, engine=to)
    refuse_other_work(store, run_id, stages)
    find_engine(to).check_ready(recipe, store)
    with _asked(store, run_id, to):
        _tell(f"run {run_id} ends at its next step, and continues on engine {to}")
        states = _handed_over(store, run_id, arguments.wait)
        for state in states:
            _tell(f"{state.stage}@{state.step}: state {state.digest[:DIGEST_LENGTH]} verified")
        if not states:
            _tell("no stage of it was between two steps; those that have ended are not done again")
        arguments.engine, arguments.new = to, True
        return run_recipe(recipe, store, arguments)


def _tell(text: str) -> None:
    print(visible(f"move    {text}"), file=sys.stderr, flush=True)


@contextmanager
def _asked(store: Store, run_id: str, to: str) -> Iterator[None]:
    """Have a run end at its next step; take that back if it does not go on elsewhere."""
    ask(store, run_id, to)
    try:
        yield
    finally:
        if not (asked(store, run_id) or {}).get("as"):
            withdraw(store, run_id)


def _handed_over(store: Store, run_id: str, wait_seconds: float) -> list[State]:
    scratch = Path(tempfile.mkdtemp(prefix="posttrain-move-"))
    try:
        return hand_over(store, run_id, scratch, _tell, wait_seconds=wait_seconds)
    except StoreLocked as error:
        raise InputError(
            f"move: a stage of run {run_id} has not come to a step's border in {wait_seconds:g} s, so the run stays "
            f"where it is ({error}); a stage that makes no checkpoints has to end first: --wait SECONDS"
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def refuse_ended(store: Store, run_id: str) -> None:
    """Raise InputError for a run that is done, or goes on elsewhere already."""
    from components.runtime.ledger.ledger import load_run

    if load_run(store, run_id).status == "succeeded":
        raise InputError(f"move: run {run_id} has succeeded: nothing of it is left to do")
    if (record := asked(store, run_id)) and record.get("as"):
        raise InputError(f"move: run {run_id} has moved: {words(record)}")


def moved_recipe(store: Store, run_id: str, overrides: Sequence[str] = (), where: str | None = None) -> Recipe:
    """Return the recipe of a run with its overrides, then these, for the run that goes on for it."""
    from components.runtime.ledger.ledger import load_run
    from pipelines.recipe.moved import MOVED
    from pipelines.recipe.recipe import load_recipe

    entry = load_run(store, run_id).entry
    own = [text for text in entry.get("overrides") or () if text.partition("=")[0].strip() != MOVED]
    return load_recipe(where or recipe_path("move", run_id, entry), [*own, *overrides, f"{MOVED}={run_id}"])


def refuse_other_work(store: Store, run_id: str, stages: Sequence[StageForecast]) -> None:
    """Raise InputError if what a run has begun is other work by now, so that its state could not be gone on from."""
    begun = fingerprints_begun(store, run_id)
    for stage in stages:
        name, known = stage.job.stage, stage.fingerprint
        if known is not None and name in begun and begun[name] != known:
            raise InputError(
                f"move: stage {name!r} of run {run_id} would be other work now ({stage.reason}): its state cannot be "
                "gone on from; let it end where it is, or run the recipe anew"
            )
