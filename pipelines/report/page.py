"""The page: sections in order, with the style sheet inside, so that the file can be mailed as it is."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from components.contract.artifacts import ArtifactType, Manifest
from components.pages.pages import render
from components.runtime.store import Store
from components.runtime.store.blobs import disk_errors
from pipelines.report import work
from pipelines.report.arms.design import Design
from pipelines.report.collect import RunData, collect
from pipelines.report.content import PageSection, duration
from pipelines.report.costs import cost_section
from pipelines.report.evaluations import result_tables
from pipelines.report.forks import fork_section
from pipelines.report.sample_content import SampleBrowser
from pipelines.report.samples import sample_section
from pipelines.report.sections import declared_sections, result_sections
from pipelines.report.settings import differing, settings_table

TEMPLATE = Path(__file__).with_name("page.html")
STYLES = (Path(__file__).with_name("report.css"), Path(__file__).with_name("samples.css"))
SCRIPT = Path(__file__).with_name("samples.js")


def build_report(store: Store, run_id: str) -> Manifest:
    """Write the run's report as a Report artifact with one index.html and return its manifest."""
    return commit_report(store, collect(store, run_id))


def commit_report(store: Store, data: RunData) -> Manifest:
    """Store the page of a collected run.

    Fully cached runs share one page: it names the runs whose work it shows, not the run that requested it.
    """
    about = {"repeats": data.repeated} if data.repeated else {"run_id": data.run["run_id"]}
    return store_page(store, render_page(data), f"report of run {data.run['run_id']}", about)


def store_page(store: Store, page: str, name: str, about: dict[str, Any]) -> Manifest:
    """Store a page as a Report artifact; `name` is what an error calls it."""
    told = disk_errors(name, "write")
    with told, tempfile.TemporaryDirectory(prefix="posttrain-report-") as folder:
        Path(folder, "index.html").write_text(page, encoding="utf-8")
        return store.commit(ArtifactType.REPORT, Path(folder), about)


def render_page(data: RunData) -> str:
    """Return the whole page as HTML."""
    run, end = data.run, data.end or {"status": "running", "seconds": 0.0, "ended": ""}
    tables, design = result_tables(data), Design.of_stages(data.stages)
    sections = [
        work.alarms(data),
        work.undone_work(data),
        fork_section(data),
        *result_sections(tables, design),
        _settings(data, design),
        work.graph(data),
        *declared_sections(data, tables, design),
        sample_section(data, tables),
        cost_section(data, design),
        work.lineage(data),
        work.reproduce(data),
    ]
    title = f"the work of {', '.join(data.repeated)}, from the cache" if data.repeated else run["run_id"]
    facts = [title, f"engine {run['engine']}", f"seed {run['seed']}"]
    if run.get("trigger"):
        facts.append(f"started by {run['trigger']['text']}")
    facts += [f"moved {line}" for line in data.moves]
    if not data.repeated:
        facts += [duration(end["seconds"]), f"started {run['started'][:19].replace('T', ' ')} UTC"]
    return draw_page(
        sections, title=title, heading=run["recipe"], summary=run["summary"], facts=facts, status=end["status"]
    )


def _settings(data: RunData, design: Design) -> PageSection:
    """Return what the arms of a matrix set."""
    arms = [(arm.title, [stage for stage in data.stages if arm.covers(stage.arm)]) for arm in design.arms]
    titles, sides = (
        [title for title, _ in arms],
        [[replace(stage, labels={}, fixed=stage.labels) for stage in of] for _, of in arms],
    )
    return PageSection("What the arms set", settings_table(titles, differing(sides)))


def draw_page(
    sections: Sequence[PageSection], *, title: str, heading: str, summary: str, facts: Sequence[str], status: str = ""
) -> str:
    """Return a page of sections as HTML, with its style sheet and script inside."""
    browsing = any(isinstance(part, SampleBrowser) for section in sections for part in section.parts)
    return render(
        TEMPLATE,
        title=title,
        style=Markup("".join(path.read_text(encoding="utf-8") for path in STYLES)),
        script=Markup(SCRIPT.read_text(encoding="utf-8") if browsing else ""),
        heading=heading,
        summary=summary,
        status=status,
        facts=facts,
        sections=sections,
    )
