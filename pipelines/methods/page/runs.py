"""Runs of a store that a record may have come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from components.contract.errors import InputError, PosttrainError
from components.runtime.ledger.ledger import Ledger
from components.runtime.store import Store
from pipelines.language.find import METHODS
from pipelines.methods.methods import Method
from pipelines.methods.records import FORMAT
from pipelines.plan.plan import build_plan
from pipelines.recipe.recipe import load_recipe

REQUESTED = ("name", "component", "params", "seed")
"""What a stage of a run and of a record must have in common."""


def runs_of(store: Store, method: Method) -> list[str]:
    """Return the runs of the store, oldest first, all of whose stages the method's record asks for.

    Each look is a run of its own, with more seeds than the one before. Runs whose record is damaged are left out.
    """
    if not method.result or method.result.get("format") != FORMAT:
        return []
    try:
        recipe = load_recipe(f"{METHODS}{method.slug}", method.result["setting"]["overrides"])
    except InputError:
        return []
    plan = build_plan(recipe, store.uri, "plan")
    wanted = {
        job.stage: {"name": job.stage, "component": job.component, "params": job.params, "seed": job.seed}
        for job in plan.jobs
    }
    return list(_matching(Ledger(store), recipe.name, wanted))


def _matching(ledger: Ledger, name: str, wanted: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for run_id in ledger.newest[::-1]:
        if not run_id.startswith(f"{name}-"):  # a run's id begins with its recipe
            continue
        try:
            entry = ledger.run_entry(run_id)
        except PosttrainError:
            continue
        stages = entry.get("stages") or []
        if (
            entry.get("recipe") == name
            and stages
            and all(_asked(stage) == wanted.get(stage["name"]) for stage in stages)
        ):
            yield run_id


def _asked(stage: Mapping[str, Any]) -> dict[str, Any]:
    return {key: stage.get(key) for key in REQUESTED}
