"""The page of several runs, or cells: results side by side, curves overlaid, what differs, and where each came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from components.contract.artifacts import Manifest
from components.contract.display import Curves, Profiles
from components.runtime.store import Store
from pipelines.report import work
from pipelines.report.arms.design import Design
from pipelines.report.collect import RunData
from pipelines.report.content import Cell, Digests, Link, PageSection, Rows, Verbatim, duration
from pipelines.report.costs import sides_section
from pipelines.report.evaluations import result_tables
from pipelines.report.forks import sides_forks
from pipelines.report.page import draw_page, store_page
from pipelines.report.sections import declared_sections, result_sections
from pipelines.report.settings import differing, settings_table
from pipelines.report.several.sides import Side, combine, side_axis


def build_page(store: Store, sides: Sequence[Side]) -> Manifest:
    """Store the page of several sides as a Report artifact with one index.html and return its manifest."""
    runs = list(dict.fromkeys(side.run_id for side in sides))
    return store_page(store, render_sides(sides), f"report of {', '.join(runs)}", {"runs": runs})


def render_sides(sides: Sequence[Side]) -> str:
    """Return the whole page as HTML."""
    data = combine(sides)
    tables, design = result_tables(data), Design.of_stages(data.stages, side_axis(sides))
    titles = [side.title(sides) for side in sides]
    runs = list({side.run_id: side.data for side in sides}.values())
    recipes = dict.fromkeys(str(one.run["recipe"]) for one in runs)
    sections = [
        *result_sections(tables, design),
        sides_forks(runs),
        PageSection("Runs", [_runs(runs)]),
        PageSection(
            "What differs", settings_table(titles, differing([side.stages for side in sides]), of=side_axis(sides))
        ),
        *declared_sections(data, tables, design, kinds=(Curves, Profiles)),
        sides_section([(side.title(sides), *side.costs) for side in sides]),
        *(_lineage(one) for one in runs),
        PageSection("Reproduce", [Verbatim("\n".join(dict.fromkeys(str(one.run["command"]) for one in runs)))]),
    ]
    return draw_page(
        sections,
        title=" and ".join(recipes),
        heading=" and ".join(recipes),
        summary=f"{len(sides)} {'runs' if len(runs) == len(sides) else 'cells'} side by side",
        facts=titles,
    )


def _runs(runs: Sequence[RunData]) -> Rows:
    head = ["run", "recipe", "status", "stages", "seed", "started", "took", "code", "lineage"]
    return Rows(head, [_run(one) for one in runs], numbers_from=len(head))


def _run(data: RunData) -> list[Cell]:
    run, end = data.run, data.end or {"status": "unfinished", "seconds": 0.0}
    done = sum(stage.status in ("done", "cached") for stage in data.stages)
    return [
        str(run["run_id"]),
        str(run["recipe"]),
        str(end["status"]),
        f"{done}/{len(data.stages)}",
        str(run["seed"]),
        f"{run['started'][:19].replace('T', ' ')} UTC",
        duration(end["seconds"]),
        Digests((("changed" if run["code"]["dirty"] else "", str(run["code"]["version"])),)),
        Link("lineage", _lineage_title(data)),
    ]


def _lineage(data: RunData) -> PageSection:
    return replace(work.lineage(data), title=_lineage_title(data))


def _lineage_title(data: RunData) -> str:
    return f"Lineage of {data.run['run_id']}"
