"""The sections that components declare, rendered by kind; a message replaces a section that cannot be rendered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from components.contract.display import Bars, Curves, Profiles, Role, Samples, Section, Table
from pipelines.report.collect import RunData, Stage, declared, group_name
from pipelines.report.content import PageSection, Paragraph, Part
from pipelines.report.curves import curves, profiles
from pipelines.report.evaluations import ResultTable
from pipelines.report.results import RECOVERY, lead, measured, recovery
from pipelines.report.tables import bars, digest_of, samples, table

UNREADABLE = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""Exceptions raised by a file that does not match its component's declaration."""
Declared = list[tuple[Section, Stage]]


def result_sections(tables: list[ResultTable]) -> Iterator[PageSection]:
    """Yield the results, and what was lost and recovered."""
    for found in tables:
        yield PageSection(found.results.title, _guarded("", partial(measured, found)), lead(found))
        if found.results.recovery and found.results.share:
            yield PageSection(found.results.recovery, _guarded("", partial(recovery, found)), RECOVERY)


def declared_sections(data: RunData, tables: list[ResultTable]) -> Iterator[PageSection]:
    """Yield the sections of a run's components by role; sections of the same kind and title are merged."""
    shared: dict[tuple[type[Section], str], Declared] = {}
    for role in Role:
        for stage in data.ended:
            component = declared(stage.component)
            for section in component.report if component and component.role is role else ():
                shared.setdefault((type(section), section.title), []).append((section, stage))
    order = {stage.name: place for place, stage in enumerate(data.stages)}
    for found in shared.values():
        found.sort(key=lambda item: order[item[1].name])
        first = found[0][0]
        yield _profiles(first, found, tables) if isinstance(first, Profiles) else _each(first, found)


def _profiles(section: Profiles, found: Declared, tables: list[ResultTable]) -> PageSection:
    names = {stage.name for _, stage in found}
    evaluations = [item for table in tables for item in table.evaluations if item.stages[0].name in names]
    seeds = " First seed." if any(len(item.stages) > 1 for item in evaluations) else ""
    return PageSection(section.title, _guarded("", partial(profiles, section, evaluations)), section.lead + seeds)


def _each(first: Section, found: Declared) -> PageSection:
    """Return a section with a part per stage, or per group of stages (seeds)."""
    groups: dict[str, Declared] = {}
    for section, stage in found:
        name = stage.name if isinstance(section, Table | Samples) else group_name(stage)
        groups.setdefault(name, []).append((section, stage))
    shown: set[str] = set()
    parts = [part for name, members in groups.items() for part in _guarded(name, partial(_parts, members, shown))]
    return PageSection(first.title, parts, first.lead)


def _parts(members: Declared, shown: set[str]) -> list[Part]:
    section, stage = members[0]
    if isinstance(section, Curves):
        return curves(section, [stage for _, stage in members])
    if isinstance(section, Bars):
        return _first_bars(members, shown)
    if isinstance(section, Table):
        return table(section, stage)
    assert isinstance(section, Samples), f"{type(section).__name__}: no kind of section"
    return samples(section, stage)


def _first_bars(members: Declared, shown: set[str]) -> list[Part]:
    """Return the bars of the first stage of a group whose output no other stage has shown."""
    for section, stage in members:
        assert isinstance(section, Bars)
        digest = digest_of(stage, section.port)
        if digest not in shown and (parts := bars(section, stage)):
            shown.add(digest)
            return parts
    return []


def _guarded(name: str, draw: Callable[[], list[Part]]) -> list[Part]:
    try:
        return draw()
    except UNREADABLE as error:  # the rest of the report can be shown
        return [Paragraph(f"cannot be shown: {type(error).__name__}: {error}", "failure", of=name)]
