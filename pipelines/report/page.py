"""The page: sections in order, with the style sheet inside, so that the file can be mailed as it is."""

from __future__ import annotations

import tempfile
from pathlib import Path

from markupsafe import Markup

from components.contract.artifacts import ArtifactType, Manifest
from components.pages.pages import render
from components.runtime.store import Store
from components.runtime.store.blobs import disk_errors
from pipelines.report import work
from pipelines.report.collect import RunData, collect
from pipelines.report.content import duration
from pipelines.report.evaluations import result_tables
from pipelines.report.sections import declared_sections, result_sections

TEMPLATE = Path(__file__).with_name("page.html")
STYLE = Path(__file__).with_name("report.css")


def build_report(store: Store, run_id: str) -> Manifest:
    """Write the run's report as a Report artifact with one index.html and return its manifest."""
    return commit_report(store, collect(store, run_id))


def commit_report(store: Store, data: RunData) -> Manifest:
    """Store the page of a collected run.

    Fully cached runs share one page: it names the runs whose work it shows, not the run that requested it.
    """
    page = render_page(data)
    about = {"repeats": data.repeated} if data.repeated else {"run_id": data.run["run_id"]}
    told = disk_errors(f"report of run {data.run['run_id']}", "write")
    with told, tempfile.TemporaryDirectory(prefix="posttrain-report-") as name:
        Path(name, "index.html").write_text(page, encoding="utf-8")
        return store.commit(ArtifactType.REPORT, Path(name), about)


def render_page(data: RunData) -> str:
    """Return the whole page as HTML."""
    run, end = data.run, data.end or {"status": "running", "seconds": 0.0, "ended": ""}
    tables = result_tables(data)
    sections = [
        work.alarms(data),
        *result_sections(tables),
        work.graph(data),
        *declared_sections(data, tables),
        work.lineage(data),
        work.reproduce(data),
    ]
    title = f"the work of {', '.join(data.repeated)}, from the cache" if data.repeated else run["run_id"]
    facts = [title, f"engine {run['engine']}", f"seed {run['seed']}"]
    if not data.repeated:
        facts += [duration(end["seconds"]), f"started {run['started'][:19].replace('T', ' ')} UTC"]
    return render(
        TEMPLATE,
        title=title,
        style=Markup(STYLE.read_text(encoding="utf-8")),
        recipe=run["recipe"],
        summary=run["summary"],
        status=end["status"],
        facts=facts,
        sections=sections,
    )
