"""What a bisection will cost, told beforehand: runs at most, what is cached, and what the rest takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.runtime.costs.words import amount_text
from pipelines.bisection.case import Case
from pipelines.bisection.halves import load_tree
from pipelines.bisection.search import most_tests
from pipelines.engines.start import plan_run
from pipelines.methods.looks import Look
from pipelines.plan.forecast import Outlook
from pipelines.plan.shown import cost_of

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.plan.forecast import StageForecast


def foresee(store: Store, case: Case, looks: Sequence[Look], max_halves: int) -> dict[str, Any]:
    """Return the numbers of a bisection that has not begun; nothing is run.

    Raises InputError for an end that cannot be planned.
    """
    first, last = looks[0].seeds, looks[-1].seeds
    halves = min(most_tests(len(case.differences)), max_halves)
    everything = frozenset(range(len(case.differences)))
    ends = {}
    for side, chosen in (("good", frozenset[int]()), ("bad", everything)):
        stages: list[StageForecast] = []
        for place in range(first):
            # under the recipe's own name, whose earlier runs say what its stages take
            recipe = load_tree(case.halves.tree(chosen), case.halves.folder, case.recipe, case.seed + place)
            try:
                stages += plan_run(recipe, store)[1]
            except InputError as error:
                raise InputError(f"{side.upper()} cannot run: {error}") from None
        ends[side] = _of(stages)
    return {
        "seeds": [first, last],
        "ends": ends,
        "halves_for_one_cause": halves,
        "halves_at_most": max_halves,
        "runs_for_one_cause": (2 + halves) * first,
        "runs_at_most": (2 + max_halves) * last,
    }


def _of(stages: Sequence[StageForecast]) -> dict[str, Any]:
    to_run = [stage for stage in stages if stage.outlook is Outlook.RUN]
    return {
        "stages": len(stages),
        "cached": sum(stage.outlook is Outlook.CACHED for stage in stages),
        "unknown": sum(stage.amount is None for stage in to_run),
        "cost": amount_text(cost_of(to_run)),
    }


def foresight_lines(found: dict[str, Any], case: Case) -> Iterator[str]:
    """Yield the same in words."""
    first, last = found["seeds"]
    for side, of in found["ends"].items():
        missing = of["stages"] - of["cached"]
        basis = f", {of['unknown']} without a basis" if of["unknown"] else ""
        cost = f"; the rest takes about {of['cost']}{basis}" if missing > of["unknown"] else "; no basis for the rest"
        cached = f"{of['cached']} of {of['stages']} stages are cached"
        yield f"{side.upper()} at {first} seeds: {cached}{cost if missing else ''}"
    if case.halves.versions is not None:
        yield "both as today's code would run them: what another version has in the cache is known when it runs"
    yield (
        f"halves: {found['halves_for_one_cause']} at most for one cause if {first} seeds decide each "
        f"({found['runs_for_one_cause']} runs with the ends), more for each further one or an undecided half; "
        f"never more than {found['halves_at_most']}, at up to {last} seeds ({found['runs_at_most']} runs)"
    )
    shared = _shared(case)
    if shared:
        yield f"shared by all halves at a seed: {', '.join(shared)}"


def _shared(case: Case) -> list[str]:
    """Return the stages that no difference reaches; none if one reaches what is not known."""
    if not all(difference.stages for difference in case.differences):
        return []
    touched = {stage for difference in case.differences for stage in difference.stages}
    return list(_before(case, touched))


def _before(case: Case, touched: set[str]) -> Iterator[str]:
    """Yield the stages that are neither changed nor behind one that is."""
    recipe = case.halves.recipe(frozenset(), case.seed)
    for stage in recipe.stages:
        if stage.name in touched or touched.intersection(stage.after):
            touched = touched | {stage.name}
        elif stage.name in case.stages:
            yield stage.name
