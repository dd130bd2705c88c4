"""A record confirmed: its first seed, run again with today's code, gives every recorded number again.

Runs repeat to the last bit on one kind of CPU, so equal numbers say that what changed in the code changes no result.
Another kind may round differently; then nothing is confirmed, and the record is made again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from components.runtime.system.code import code_version
from pipelines.methods.digests import operator_digests, setting_digest
from pipelines.methods.recorded import Record, RecordedEffect, RecordedValue
from pipelines.methods.records import what_changed
from pipelines.methods.reproduce import Finding, Reproduction, rounded
from pipelines.methods.tuning import Tuned, remarks_on_frozen, tuning_of, with_todays_digests
from pipelines.plan.plan import Plan
from pipelines.recipe.hallmark import Hallmark, Measure

CLAIM = ("name", "direction", "floor", "floor_from")
BOUNDS = ("at_least", "at_most")
GROUPS = ("claims", "preconditions", "active", "secondary", "also")


@dataclass(frozen=True)
class Difference:
    """A number that did not come again."""

    quantity: str
    recorded: float
    found: float | None


def beyond_confirmation(found: Mapping[str, Any], record: Record, plan: Plan, tuned: Any) -> list[str]:
    """Return why a record must be made again, whatever a run gives: claims other words, or does not follow.

    `plan` is that of today's recipe with the record's overrides, `tuned` the record of its tuning.
    """
    hallmark = plan.recipe.hallmark
    assert hallmark is not None
    words = tuning_of(plan.recipe)
    remarks = changed_words(record, hallmark)
    remarks += what_changed(renewed(found, plan, []), plan)
    if words is not None and tuned is not None and tuned["tuning"] != words.model_dump(mode="json"):
        remarks.append("hallmark.tuning has other words: tune it again")
    return [*remarks, *remarks_on_frozen(plan.recipe, tuned and with_todays_digests(tuned, plan.recipe))]


def renewed(found: Mapping[str, Any], plan: Plan, seeds: list[int]) -> dict[str, Any]:
    """Return a record with today's digests, confirmed at these seeds; its measurements stay."""
    setting = {**found["setting"], "digest": setting_digest(plan)}
    return {**found, "operators": operator_digests(plan.recipe), "setting": setting, "confirmed": confirmation(seeds)}


def confirmation(seeds: list[int]) -> dict[str, Any]:
    """Return when, with which code and at which seeds numbers came again."""
    code = {key: value for key, value in code_version().items() if key != "lock"}
    return {"date": f"{datetime.now(UTC):%Y-%m-%d}", "code": code, "seeds": seeds}


def changed_words(record: Record, hallmark: Hallmark) -> list[str]:
    """Return what the recipe claims and measures otherwise than its record, in words."""
    now, then = dict(_words(hallmark)), dict(_recorded_words(record))
    told = []
    for place in dict.fromkeys([*then, *now]):
        if place not in then or place not in now:
            told.append(f"hallmark.{place} is {'new' if place in now else 'gone'}")
        elif now[place] != then[place]:
            told.append(f"hallmark.{place} was {then[place]!r} and is {now[place]!r}")
    return told


def differences(record: Record, again: Reproduction) -> tuple[int, list[Difference]]:
    """Return how many numbers a run of the record's first seed was compared in, and those that differ."""
    found, then = dict(_numbers(again)), dict(_recorded_numbers(record))
    told = [Difference(name, value, found.get(name)) for name, value in then.items() if found.get(name) != value]
    return len(then), told


def tuning_differences(tuned: Mapping[str, Any], again: Tuned) -> tuple[int, list[Difference]]:
    """Return the same of a tuning, of which every value of the grid was run again at its first seed."""
    pairs = [
        Difference(f"tuning, {again.words.of} {value}: {arm}", entry["values"][place][0], again.arms[arm][place][0])
        for arm, entry in tuned["arms"].items()
        for place, value in enumerate(again.words.grid)
    ]
    return len(pairs), [pair for pair in pairs if pair.recorded != pair.found]


def _words(hallmark: Hallmark) -> Iterator[tuple[str, Any]]:
    words = hallmark.words
    yield "claim", words.claim
    yield "looks", list(words.looks)
    yield "arms", sorted(hallmark.arms)
    for part, measure in hallmark.claims.items():
        yield from ((f"{part}.{key}", getattr(getattr(words, part), key)) for key in CLAIM)
        yield from _expressions(part, measure)
    for group in ("preconditions", "active"):
        for name, measure in getattr(hallmark, group).items():
            yield from ((f"{group}.{name}.{key}", getattr(getattr(words, group)[name], key)) for key in BOUNDS)
            yield from _expressions(f"{group}.{name}", measure)
    for group in ("secondary", "also"):
        for name, measure in getattr(hallmark, group).items():
            yield from _expressions(f"{group}.{name}", measure)
    if hallmark.budget is not None:
        yield from _expressions("budget", hallmark.budget)


def _expressions(place: str, measure: Measure) -> Iterator[tuple[str, Any]]:
    yield f"{place}.value", measure.value.source
    if measure.effect is not None:
        yield f"{place}.effect", measure.effect.source


def _recorded_words(record: Record) -> Iterator[tuple[str, Any]]:
    yield "claim", record.claim
    yield "looks", list(record.looks)
    yield "arms", sorted(record.arms)
    for place, entry in _entries(record):
        place = place.removeprefix("claims.")
        for key in (*CLAIM, *BOUNDS, "value", "effect"):
            if key in type(entry).model_fields:
                yield f"{place}.{key}", getattr(entry, key)


def _entries(record: Record) -> Iterator[tuple[str, RecordedValue]]:
    for group in GROUPS:
        yield from ((f"{group}.{name}", entry) for name, entry in getattr(record, group).items())
    if record.budget is not None:
        yield "budget", record.budget


def _recorded_numbers(record: Record) -> Iterator[tuple[str, float]]:
    for place, entry in _entries(record):
        yield from ((f"{place}: {arm}", value) for arm, values in entry.arms.items() for value in values[:1])
        if isinstance(entry, RecordedEffect):
            yield from ((f"{place}: effect", value) for value in entry.effects[:1])


def _numbers(found: Reproduction) -> Iterator[tuple[str, float]]:
    for place, finding in _findings(found):
        yield from ((f"{place}: {arm}", rounded(values[0])) for arm, values in finding.arms.items())
        yield from ((f"{place}: effect", effect) for effect in finding.effects[:1])


def _findings(found: Reproduction) -> Iterator[tuple[str, Finding]]:
    for group in GROUPS:
        for name, finding in getattr(found, group).items():
            yield f"{group}.{name}", finding if isinstance(finding, Finding) else finding.finding
    if found.budget is not None:
        yield "budget", found.budget
