"""A bisection in words and as plain JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from components.measure.intervals import Interval
from pipelines.bisection.bisect import SIDES, Found, Tried, interval_text
from pipelines.bisection.case import Case
from pipelines.bisection.differences import Difference
from pipelines.bisection.search import Cause, Set, Verdict

HEAD = ["half", "BAD's differences", "metric", "less GOOD", "less the middle", "seeds", "is like", "new work"]


def numbers(chosen: Set) -> str:
    """Return differences by their numbers from 1, runs of them as a range: 1-3, 5."""
    found: list[list[int]] = []
    for number in sorted(chosen):
        if found and found[-1][-1] == number:
            found[-1].append(number + 1)
        else:
            found.append([number + 1])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in found)


def tried_row(found: Found, one: Tried) -> list[str]:
    """Return the cells of one half, as HEAD names them but for its number."""
    mean = f"{sum(one.values) / len(one.values):.4g}" if one.values else "-"
    effect = found.effect_of(one.chosen)
    return [
        numbers(one.chosen),
        mean,
        interval_text(effect) if effect else "-",
        interval_text(one.judged.interval) if one.judged else one.reason,
        str(len(one.values)),
        {Verdict.GOOD: "GOOD", Verdict.BAD: "BAD"}.get(one.verdict, str(one.verdict)),
        f"{one.new_seconds:.1f} s",
    ]


def cause_lines(found: Found) -> Iterator[str]:
    """Yield what was found, the causes one by one."""
    whole = interval_text(found.effect)
    yield f"BAD less GOOD: {whole} over {found.effect.n} seeds"
    for place, cause in enumerate(found.causes, start=1):
        yield cause_title(place, cause, found)
        for line in cause_members(cause, found.differences):
            yield f"  {line}"
    if found.open:
        yield f"the halves are used up; a cause is among differences {numbers(found.open)}: --max-halves"
    elif found.causes:
        yield rest_text(found)


def cause_title(place: int, cause: Cause, found: Found) -> str:
    """Return a cause's head line: how many differences, and what they do to GOOD."""
    number = f" {place}" if len(found.causes) > 1 else ""
    together = f", {len(cause.all)} differences together" if len(cause.all) > 1 else ""
    effect = found.effect_of(cause.all)
    moved = f": GOOD with it {interval_text(effect)} from GOOD over {effect.n} seeds" if effect else ""
    return f"cause{number}{together}{moved}"


def cause_members(cause: Cause, differences: tuple[Difference, ...]) -> Iterator[str]:
    """Yield the differences of a cause, with their kinds."""
    for member in cause.members:
        untold = " (no half tells these apart)" if len(member) > 1 else ""
        for number in sorted(member):
            difference = differences[number]
            yield f"{number + 1} {difference.kind}: {difference.text}{untold}"


def rest_text(found: Found) -> str:
    """Return what BAD is like without all causes."""
    named = frozenset[int]().union(*(cause.all for cause in found.causes))
    left = frozenset(range(len(found.differences))) - named
    if not left:
        return "nothing else differs"
    effect = found.effect_of(left)
    moved = f": {interval_text(effect)} from GOOD" if effect else ""
    if found.rest is Verdict.GOOD:
        return f"BAD without it is like GOOD{moved}"
    if found.rest is Verdict.FAILED:
        return "BAD without it does not run, so whether there is a further cause is not known"
    return f"BAD without it is between the two{moved}: there may be a further cause, too weak for these seeds"


def case_json(case: Case) -> dict[str, Any]:
    """Return the ends and their differences."""
    return {
        "ends": {side.lower(): end.title for side, end in zip(SIDES, case.ends, strict=True)},
        "metric": case.metric.text,
        "differences": [_difference_json(number, one) for number, one in enumerate(case.differences, start=1)],
        "without_effect": [difference.text for difference in case.idle],
        "notes": list(case.notes),
    }


def _difference_json(number: int, difference: Difference) -> dict[str, Any]:
    names = [part.name for part in difference.parts] or list(difference.rooms)
    return {
        "number": number,
        "kind": difference.kind,
        "names": names,
        "text": difference.text,
        "stages": list(difference.stages),
    }


def found_json(found: Found) -> dict[str, Any]:
    """Return what was tried and found."""
    return {
        "seeds": list(found.seeds),
        "good": list(found.good),
        "bad": list(found.bad),
        "effect": _interval_json(found.effect),
        "tried": [
            {
                "differences": [number + 1 for number in sorted(one.chosen)],
                "verdict": str(one.verdict),
                "values": list(one.values),
                "from_the_middle": _interval_json(one.judged.interval) if one.judged else None,
                "reason": one.reason,
                "new_seconds": round(one.new_seconds, 3),
            }
            for one in found.tried
        ],
        "causes": [
            {
                "differences": [number + 1 for number in sorted(cause.all)],
                "names": [found.differences[number].name for number in sorted(cause.all)],
                "effect": _interval_json(effect) if (effect := found.effect_of(cause.all)) else None,
            }
            for cause in found.causes
        ],
        "without_causes": str(found.rest) if found.rest else None,
        "open": [number + 1 for number in sorted(found.open)],
        "not_repeated": list(found.notes),
        "ends_seconds": round(found.ends_seconds, 3),
        "halves_seconds": round(found.halves_seconds, 3),
        "run_seconds": round(found.run_seconds, 3),
    }


def _interval_json(interval: Interval) -> dict[str, float | int]:
    return interval.to_json()
