"""Records of reproductions: measurements, verdicts and provenance as plain JSON, and what still stands of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from components.contract.errors import InputError
from components.runtime.system.code import code_version
from pipelines.language.find import METHODS
from pipelines.methods.digests import changed_operators, operator_digests, setting_digest
from pipelines.methods.looks import plan_looks
from pipelines.methods.recorded import read_record
from pipelines.methods.reproduce import Condition, Finding, Reproduction, rounded
from pipelines.methods.results import EARLIER_PROTOCOL
from pipelines.methods.tuning import remarks_on_frozen
from pipelines.methods.verdict import Decision, decide
from pipelines.plan.plan import Plan, build_plan
from pipelines.recipe.hallmark_words import PrimaryWords
from pipelines.recipe.recipe import load_recipe

FORMAT = 2
"""2: mechanism and outcome judged at looks; records without it are of three seeds and a percentile bootstrap."""
DECIDES = ("name", "value", "effect", "direction", "floor", "floor_from")
"""Words of a claim that its record keeps."""


def record_json(found: Reproduction, plan: Plan, run_seconds: float, cpu_seconds: float) -> dict[str, Any]:
    """Return the record of a reproduction: its measurements, verdicts and provenance.

    `run_seconds` is what the last run took, `cpu_seconds` the work of all stages behind it, whichever run did it.
    """
    words, recipe = found.hallmark.words, plan.recipe
    return {
        "format": FORMAT,
        "slug": found.slug,
        "catalogue": words.catalogue,
        "claim": words.claim,
        "verdicts": {part: str(found.verdict(part)) for part in found.claims},
        "invalid": found.invalid,
        "seeds": list(found.hallmark.seeds),
        "looks": list(words.looks),
        "claims": {part: _claim_json(found, part) for part in found.claims},
        "preconditions": {name: _condition_json(condition) for name, condition in found.preconditions.items()},
        "active": {name: _condition_json(condition) for name, condition in found.active.items()},
        "secondary": {name: _effect_json(finding) for name, finding in found.secondary.items()},
        "also": {name: _value_json(finding) for name, finding in found.also.items()},
        "budget": None if found.budget is None else _value_json(found.budget),
        "seconds": {
            "shared": round(found.shared_seconds, 1),
            "arms": {arm: round(seconds, 1) for arm, seconds in found.arm_seconds.items()},
        },
        "run_seconds": round(run_seconds, 1),
        "cpu_seconds": round(cpu_seconds, 1),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "code": {key: value for key, value in code_version().items() if key != "lock"},
        "operators": operator_digests(recipe),
        "setting": {"digest": setting_digest(plan), "overrides": list(recipe.overrides)},
    }


def remarks_on(slug: str, record: Mapping[str, Any], tuned: Mapping[str, Any] | None = None) -> list[str]:
    """Return why a method's record no longer speaks of its recipe with the overrides that it was made with.

    `tuned` is the record of its tuning, which must still fit. Raises InputError for a record that is malformed.
    """
    if record.get("format") != FORMAT:
        return [EARLIER_PROTOCOL]
    overrides = read_record(record).setting.overrides
    try:
        recipe = load_recipe(f"{METHODS}{slug}", overrides)
        plan = build_plan(recipe, "store", "run")
    except InputError as error:
        return [f"its overrides no longer fit the recipe: {str(error).partition(chr(10))[0]}"]
    return [*what_changed(record, plan), *remarks_on_frozen(recipe, tuned)]


def what_changed(record: Mapping[str, Any], plan: Plan) -> list[str]:
    """Return, in words, why a record no longer speaks of the recipe of `plan`; empty if it does.

    `plan` is of the recipe with the record's own overrides. Compared are the request, the code of the operators, and
    the verdicts with those that today's protocol gives for the recorded effects.
    """
    remarks = []
    if setting_digest(plan) != record["setting"]["digest"]:
        remarks.append("the recipe requests other work")
    changed = changed_operators(plan.recipe, record["operators"])
    remarks += [f"the code of {', '.join(changed)} changed"] if changed else []
    if not _restated(record):
        remarks.append("its verdicts are not those of its effects")
    return remarks


def _restated(record: Mapping[str, Any]) -> bool:
    """Return whether the record's decisions follow from its effects."""
    for entry in record["claims"].values():
        decision = decide(entry["direction"], entry["floor"], entry["effects"], plan_looks(record["looks"]))
        if decision_json(decision) != entry["decision"]:
            return False
    return True


def _claim_json(found: Reproduction, part: str) -> dict[str, Any]:
    words: PrimaryWords = getattr(found.hallmark.words, part)
    kept = {key: getattr(words, key) for key in DECIDES}
    return kept | _effect_json(found.claims[part]) | {"decision": decision_json(found.decisions[part])}


def decision_json(decision: Decision | None) -> dict[str, Any] | None:
    """Return a decision, whatever the preconditions, with the interval that gave it."""
    if decision is None:
        return None
    return {
        "verdict": str(decision.verdict),
        "look": decision.look.seeds,
        "confidence": round(1 - 2 * decision.look.alpha, 6),
        "interval": interval_json(decision.interval.value, decision.interval.low, decision.interval.high),
        "p": rounded(min(1.0, decision.p)),
        "more_seeds": decision.more_seeds,
    }


def _condition_json(condition: Condition) -> dict[str, Any]:
    bounds = condition.words.model_dump(mode="json", include={"at_least", "at_most"}, exclude_none=True)
    mean = rounded(condition.finding.interval.value)
    return {**bounds, "mean": mean, "holds": condition.holds, **_effect_json(condition.finding)}


def _effect_json(finding: Finding) -> dict[str, Any]:
    assert finding.measure.effect is not None
    interval = finding.interval
    return {
        "value": finding.measure.value.source,
        "effect": finding.measure.effect.source,
        "interval": interval_json(interval.value, interval.low, interval.high),
        "effects": [rounded(effect) for effect in finding.effects],
        "arms": _arms(finding),
    }


def _value_json(finding: Finding) -> dict[str, Any]:
    return {"value": finding.measure.value.source, "arms": _arms(finding)}


def _arms(finding: Finding) -> dict[str, list[float]]:
    return {arm: [rounded(value) for value in values] for arm, values in finding.arms.items()}


def interval_json(value: float, low: float, high: float) -> dict[str, float]:
    """Return an interval; ends that are not finite are left out."""
    ends = {"low": low, "high": high}
    return {"value": rounded(value)} | {name: rounded(end) for name, end in ends.items() if math.isfinite(end)}
