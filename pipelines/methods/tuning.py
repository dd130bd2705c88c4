"""Tuning: one setting chosen for every arm by the same rule, on seeds that judge nothing, then frozen.

Every arm tries the same grid on the same seeds, so none has more chances than another. What was chosen stands in
`results/tuned/<method>.json` beside the method's file, and `reproduce` uses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from components.contract.errors import InputError
from components.runtime.system.code import code_version
from pipelines.methods.digests import changed_operators, operator_digests, tuning_digest
from pipelines.methods.protocol import seed_override, seeds_of
from pipelines.methods.reproduce import find, rounded
from pipelines.plan.plan import Plan, build_plan
from pipelines.recipe.hallmark import ARM
from pipelines.recipe.hallmark_words import TuningWords
from pipelines.recipe.layers import override_text
from pipelines.recipe.recipe import Recipe, load_recipe
from pipelines.runs.measured import Measured

GridValue = float | int | str
RunAt = Callable[[list[str]], tuple[Plan, Measured]]
"""Runs the recipe with these overrides after its own."""


@dataclass(frozen=True)
class Tuned:
    """What every arm reached with every value of the grid."""

    words: TuningWords
    arms: Mapping[str, Sequence[Sequence[float]]]
    """Arm -> for each value of the grid, what was measured at each seed."""

    def means(self, arm: str) -> list[float]:
        """Return an arm's mean over seeds for each value of the grid."""
        return [math.fsum(values) / len(values) for values in self.arms[arm]]

    def chosen(self, arm: str) -> GridValue:
        """Return the value with the best mean, the first of equal ones; raise InputError if none was measured."""
        sign = 1.0 if self.words.highest else -1.0
        known = [(sign * mean, -place) for place, mean in enumerate(self.means(arm)) if math.isfinite(mean)]
        if not known:
            raise InputError(f"tuning: arm {arm!r} measured no number for {self.words.by!r} with any value of the grid")
        return self.words.grid[-max(known)[1]]

    def at_edge(self, arm: str) -> bool:
        """Return whether an arm chose an end of the grid, so that a wider one might give it a better value."""
        return self.chosen(arm) in (self.words.grid[0], self.words.grid[-1])


def tuning_of(recipe: Recipe) -> TuningWords | None:
    """Return how a recipe's arms are tuned, None if they are not; raise InputError for seeds that a look uses too."""
    words = recipe.hallmark.words.tuning if recipe.hallmark else None
    if recipe.hallmark is None or words is None:
        return None
    judged = {*recipe.hallmark.seeds, *seeds_of(recipe, recipe.hallmark.words.looks[-1])}
    if both := sorted(judged & set(words.seeds)):
        raise InputError(
            f"recipe {recipe.name!r}: hallmark.tuning: seed {both[0]} is one that a look uses; name others"
        )
    return words


def tune(recipe: Recipe, run_at: RunAt, seeds: Sequence[int] | None = None) -> Tuned:
    """Run every arm with every value of the grid and return what each reached; raise InputError without `tuning`.

    `seeds` are run in the place of all that the tuning names.
    """
    words = tuning_of(recipe)
    if words is None or recipe.hallmark is None:
        raise InputError(f"recipe {recipe.name!r} has no 'hallmark.tuning', so there is nothing to tune")
    arms: dict[str, list[Sequence[float]]] = {arm: [] for arm in recipe.hallmark.arms}
    for value in words.grid:
        plan, measured = run_at(_overrides(words, dict.fromkeys(arms, value), seeds or words.seeds))
        hallmark = plan.recipe.hallmark
        assert hallmark is not None and hallmark.tuned_by is not None
        for arm, values in find(hallmark.tuned_by, hallmark, measured, hallmark.arms).arms.items():
            arms[arm].append([rounded(one) for one in values])
    return Tuned(words, arms)


def tuned_json(slug: str, recipe: Recipe, found: Tuned) -> dict[str, Any]:
    """Return the record of a tuning."""
    arms = {
        arm: {"chosen": found.chosen(arm), "means": [rounded(mean) for mean in found.means(arm)], "values": values}
        for arm, values in found.arms.items()
    }
    return {
        "slug": slug,
        "tuning": found.words.model_dump(mode="json"),
        "arms": arms,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "code": {key: value for key, value in code_version().items() if key != "lock"},
        "operators": operator_digests(recipe),
        "setting": {"digest": _digest(recipe, found.words), "overrides": [*recipe.overrides]},
    }


def with_todays_digests(tuned: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Return a tuning's record with the digests of today's code and recipe; what was measured stays."""
    words = tuning_of(recipe)
    if words is None:
        return {**tuned}
    setting = {**tuned["setting"], "digest": _digest(recipe, words)}
    return {**tuned, "operators": operator_digests(recipe), "setting": setting}


def frozen_overrides(slug: str, recipe: Recipe, tuned: Mapping[str, Any] | None) -> list[str]:
    """Return the overrides that give each arm its chosen value; none for a recipe without `tuning`.

    Raises InputError where the arms are not tuned yet, or were for other work than the recipe requests now.
    """
    words = tuning_of(recipe)
    if words is None:
        return []
    if remarks := remarks_on_tuning(recipe, tuned):
        raise InputError(
            f"{slug}: {'; '.join(remarks)}; run 'posttrain reproduce {slug} --tune' with the same settings"
        )
    assert tuned is not None
    return chosen_overrides(words, chosen_of(tuned))


def chosen_of(tuned: Mapping[str, Any]) -> dict[str, GridValue]:
    """Return arm -> chosen value of a tuning's record."""
    return {arm: entry["chosen"] for arm, entry in tuned["arms"].items()}


def chosen_overrides(words: TuningWords, chosen: Mapping[str, GridValue]) -> list[str]:
    """Return the overrides that give each arm its value."""
    return [override_text(f"matrix.{ARM}.{arm}.{words.of}", value) for arm, value in chosen.items()]


def remarks_on_tuning(recipe: Recipe, tuned: Mapping[str, Any] | None) -> list[str]:
    """Return why a tuning's record does not fit to a recipe with its overrides; empty if it does."""
    words = tuning_of(recipe)
    if words is None:
        return []
    if tuned is None:
        return ["its arms are not tuned"]
    remarks = []
    if _digest(recipe, words) != tuned["setting"]["digest"]:
        remarks.append("its arms were tuned for other work")
    changed = changed_operators(recipe, tuned["operators"])
    remarks += [f"the code of {', '.join(changed)} changed since its arms were tuned"] if changed else []
    arms = {arm: entry["values"] for arm, entry in tuned["arms"].items()}
    found = Tuned(words, arms)
    if any(len(values) != len(words.grid) for values in arms.values()) or chosen_of(tuned) != {
        arm: found.chosen(arm) for arm in arms
    }:
        remarks.append("what was chosen does not follow from what was measured")
    return remarks


def remarks_on_frozen(recipe: Recipe, tuned: Mapping[str, Any] | None) -> list[str]:
    """Return why a record, made by `recipe` with the record's overrides, is not one of its tuned arms."""
    words, remarks = tuning_of(recipe), remarks_on_tuning(recipe, tuned)
    if words is None or tuned is None or remarks:
        return remarks
    frozen = chosen_overrides(words, chosen_of(tuned))
    return [] if set(frozen) <= set(recipe.overrides) else ["its arms have other values than were chosen"]


def _digest(recipe: Recipe, words: TuningWords) -> str:
    return tuning_digest(_first(recipe, words), words)


def _first(recipe: Recipe, words: TuningWords) -> Plan:
    """Return the plan of the grid's first value; those of the others differ from it in that value alone."""
    assert recipe.hallmark is not None
    overrides = _overrides(words, dict.fromkeys(recipe.hallmark.arms, words.grid[0]), words.seeds)
    return build_plan(load_recipe(str(recipe.path), [*recipe.overrides, *overrides]), "store", "run")


def _overrides(words: TuningWords, values: Mapping[str, GridValue], seeds: Sequence[int]) -> list[str]:
    return [*chosen_overrides(words, values), seed_override(seeds)]
