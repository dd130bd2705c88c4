"""The page of a bisection: what was found, every half by its distance from the middle, and all differences."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from components.measure.intervals import Interval
from pipelines.bisection.bisect import Found, Tried
from pipelines.bisection.case import Case
from pipelines.bisection.differences import KINDS
from pipelines.bisection.plain import HEAD, cause_members, cause_title, numbers, rest_text, tried_row
from pipelines.bisection.search import Verdict
from pipelines.report.arms.charts import Scale, axis, point
from pipelines.report.content import (
    Card,
    Heading,
    Measure,
    Measures,
    PageSection,
    Paragraph,
    Part,
    Rows,
    Value,
    Verbatim,
)
from pipelines.report.evaluations import Estimate
from pipelines.report.page import draw_page, store_page

if TYPE_CHECKING:
    from components.runtime.store import Store

LEAD = (
    "A half is GOOD with some of BAD's differences, run at the same seeds as both. It is like BAD if the interval of "
    "its distance from the middle between them lies on BAD's side, and like GOOD if it lies on the other."
)
COLOURS = {Verdict.GOOD: 0, Verdict.BAD: 1, Verdict.UNDECIDED: 2}


def build_page(store: Store, case: Case, found: Found) -> Path:
    """Store the page of a bisection as a Report artifact and return its file."""
    about = {"bisect": [end.title for end in case.ends], "metric": case.metric.text}
    manifest = store_page(store, render(case, found), "report of a bisection", about)
    return store.fetch(manifest.digest) / "index.html"


def render(case: Case, found: Found) -> str:
    """Return the whole page as HTML."""
    good, bad = (end.title for end in case.ends)
    sections = [
        PageSection("Causes", list(_causes(found))),
        PageSection("Halves", [*_chart(found), *_halves(found)], lead=LEAD),
        PageSection("Ends", [_ends(found)]),
        PageSection("Differences", list(_differences(case, [*case.notes, *found.notes]))),
        PageSection(
            "Reproduce", [Verbatim(shlex.join(["posttrain", "bisect", good, bad, "--metric", case.metric.text]))]
        ),
    ]
    facts = [f"{len(found.tried)} halves", f"{len(found.seeds)} seeds", f"new work of {found.worth:.1f} runs"]
    return draw_page(
        sections,
        title=f"What moved {case.metric.text}",
        heading=f"What moved {case.metric.text}",
        summary=f"from {good} (GOOD) to {bad} (BAD)",
        facts=facts,
    )


def _causes(found: Found) -> Iterator[Part]:
    for place, cause in enumerate(found.causes, start=1):
        members = [Paragraph(line, "lead") for line in cause_members(cause, found.differences)]
        title = cause_title(place, cause, found)
        yield Card([Heading(f"{title[0].upper()}{title[1:]}"), *members])
    if found.open:
        yield Paragraph(f"The halves are used up; a cause is among differences {numbers(found.open)}.", "failure")
    elif found.causes:
        text = rest_text(found)
        yield Paragraph(f"{text[0].upper()}{text[1:]}.")


def _chart(found: Found) -> Iterator[Part]:
    """Yield the distances of all halves from the middle on one scale."""
    judged = [(one, _estimate(one.judged.interval)) for one in found.tried if one.judged is not None]
    if not judged:
        return
    scale = Scale.of([estimate for _, estimate in judged])
    rows = [
        Measure(_title(one, found), _value(estimate), point(estimate, scale, COLOURS.get(one.verdict, 2)))
        for one, estimate in judged
    ]
    yield Measures("Distance from the middle, towards BAD above 0", rows, axis(scale))


def _title(one: Tried, found: Found) -> str:
    return f"{found.tried.index(one) + 1}: {numbers(one.chosen)}"


def _estimate(interval: Interval) -> Estimate:
    known = math.isfinite(interval.low) and math.isfinite(interval.high)
    return Estimate(interval.value, interval.low, interval.high) if known else Estimate(interval.value)


def _value(estimate: Estimate) -> Value:
    if estimate.low is None or estimate.high is None:
        return Value(f"{estimate.value:+.3g}")
    return Value(f"{estimate.value:+.3g}", f"[{estimate.low:+.3g}, {estimate.high:+.3g}]")


def _halves(found: Found) -> Iterator[Part]:
    if found.tried:
        rows = [[str(place), *tried_row(found, one)] for place, one in enumerate(found.tried, start=1)]
        yield Rows(HEAD, rows, numbers_from=len(HEAD))


def _ends(found: Found) -> Rows:
    rows: list[Sequence[str]] = [
        [str(seed), f"{good:.4g}", f"{bad:.4g}", f"{bad - good:+.3g}"]
        for seed, good, bad in zip(found.seeds, found.good, found.bad, strict=True)
    ]
    return Rows(["seed", "GOOD", "BAD", "difference"], rows)


def _differences(case: Case, notes: Sequence[str]) -> Iterator[Part]:
    rows = [
        [str(number), kind, ", ".join(one.stages) or "not alone", one.text]
        for kind in KINDS
        for number, one in enumerate(case.differences, start=1)
        if one.kind == kind
    ]
    yield Rows(["number", "kind", "changes", "GOOD -> BAD"], rows, numbers_from=4)
    for idle in case.idle:
        yield Paragraph(f"Changes no stage behind the metric: {idle.text}")
    for note in notes:
        yield Paragraph(note, "waiting")
