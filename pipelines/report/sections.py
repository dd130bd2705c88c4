"""The sections that components declare, rendered by kind; a message replaces a section that cannot be rendered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from components.contract.display import Audit, Bars, Curves, Profiles, Role, Samples, Section, Table, Views
from components.contract.errors import PosttrainError
from pipelines.report.arms.design import Design
from pipelines.report.arms.matrix import arm_results
from pipelines.report.arms.results import lead as lead_of_arms
from pipelines.report.arms.results import measured_arms
from pipelines.report.audit import reward_audit
from pipelines.report.collect import RunData, Stage, declared, group_name
from pipelines.report.content import PageSection, Paragraph, Part
from pipelines.report.curves import curves, profiles
from pipelines.report.evaluations import Evaluation, ResultTable
from pipelines.report.results import RECOVERY, lead, measured, recovery
from pipelines.report.tables import bars, digest_of, samples, table
from pipelines.report.views import views

UNREADABLE = (PosttrainError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""Exceptions raised by a file that does not match its component's declaration."""
Declared = list[tuple[Section, Stage]]


def result_sections(tables: list[ResultTable], design: Design) -> Iterator[PageSection]:
    """Yield the results, of arms side by side, else in the order of the recipe; and what was lost and recovered."""
    for found in tables:
        arms, title = arm_results(found, design), found.results.title
        if arms:
            yield PageSection(title, _guarded("", partial(measured_arms, arms)), lead_of_arms(arms))
        else:
            yield PageSection(title, _guarded("", partial(measured, found)), lead(found))
        if found.results.recovery and found.results.share:
            tracks = [(arm.title, [item for _, item in arms.track(arm)]) for arm in arms.design.arms] if arms else []
            yield PageSection(found.results.recovery, _guarded("", partial(recovery, found, tracks)), RECOVERY)


def declared_sections(
    data: RunData, tables: list[ResultTable], design: Design, kinds: tuple[type[Section], ...] = (Section,)
) -> Iterator[PageSection]:
    """Yield the sections of a run's components by role, of some kinds; those of one kind and title are merged."""
    shared: dict[tuple[type[Section], str], Declared] = {}
    for role in Role:
        for stage in data.ended:
            component = declared(stage.component)
            for section in component.report if component and component.role is role else ():
                if isinstance(section, kinds):
                    shared.setdefault((type(section), section.title), []).append((section, stage))
    order = {stage.name: place for place, stage in enumerate(data.stages)}
    for found in shared.values():
        found.sort(key=lambda item: order[item[1].name])
        first = found[0][0]
        yield _profiles(first, found, tables, design) if isinstance(first, Profiles) else _each(first, found, design)


def _profiles(section: Profiles, found: Declared, tables: list[ResultTable], design: Design) -> PageSection:
    names = {stage.name for _, stage in found}
    shown: list[tuple[str, int, Evaluation]] = []
    for results in tables:
        if arms := arm_results(results, design):
            last = arms.of_arms(arms.last_step)
            shown += [(arm.title, arms.colour(arm), item) for arm, item in last]
        else:
            shown += [(item.model, place, item) for place, item in enumerate(results.evaluations)]
    shown = [one for one in shown if one[2].stages[0].name in names]
    seeds = " First seed." if any(len(item.stages) > 1 for _, _, item in shown) else ""
    return PageSection(section.title, _guarded("", partial(profiles, section, shown)), section.lead + seeds)


def _each(first: Section, found: Declared, design: Design) -> PageSection:
    """Return a section with a part per stage, or per group of stages (seeds; of curves arms and rounds, too)."""
    groups: dict[str, Declared] = {}
    for section, stage in found:
        groups.setdefault(_group(section, stage), []).append((section, stage))
    shown: set[str] = set()
    parts = [part for name, of in groups.items() for part in _guarded(name, partial(_parts, of, shown, design))]
    return PageSection(first.title, parts, first.lead)


def _group(section: Section, stage: Stage) -> str:
    if isinstance(section, Curves):
        return stage.group
    return stage.name if isinstance(section, Table | Samples | Views | Audit) else group_name(stage)


def _parts(members: Declared, shown: set[str], design: Design) -> list[Part]:
    section, stage = members[0]
    if isinstance(section, Curves):
        return curves(section, [stage for _, stage in members], design)
    if isinstance(section, Bars):
        return _first_bars(members, shown)
    if isinstance(section, Table):
        return table(section, stage)
    if isinstance(section, Views):
        return views(section, stage)
    if isinstance(section, Audit):
        return reward_audit(section, stage)
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
