"""The page: sections in order, with the style sheet inside, so that the file can be mailed as it is."""

from __future__ import annotations

import tempfile
from html import escape
from pathlib import Path

from components.contract.artifacts import ArtifactType, Manifest
from components.runtime.store import Store
from components.runtime.store.blobs import disk_errors
from pipelines.report import results, work
from pipelines.report.collect import RunData, collect
from pipelines.report.html import duration

STYLE = Path(__file__).with_name("report.css")


def build_report(store: Store, run_id: str) -> Manifest:
    """Write the run's report as a Report artifact with one index.html and return its manifest."""
    return commit_report(store, collect(store, run_id))


def commit_report(store: Store, data: RunData) -> Manifest:
    """Store the page of a collected run.

    Runs that took all from the cache have one page together: it says whose work it shows, and not which run looked.
    """
    page = render(data)
    about = {"repeats": data.repeated} if data.repeated else {"run_id": data.run["run_id"]}
    told = disk_errors(f"report of run {data.run['run_id']}", "write")
    with told, tempfile.TemporaryDirectory(prefix="posttrain-report-") as name:
        Path(name, "index.html").write_text(page, encoding="utf-8")
        return store.commit(ArtifactType.REPORT, Path(name), about)


def render(data: RunData) -> str:
    """Return the whole page as HTML."""
    run, end = data.run, data.end or {"status": "running", "seconds": 0.0, "ended": ""}
    sections = [
        results.skills(data),
        results.forgetting(data),
        work.graph(data),
        results.pass_at_k(data),
        work.training(data),
        results.selection(data),
        work.data_cards(data),
        work.lineage(data),
        work.reproduce(data),
    ]
    title = f"the work of {', '.join(data.repeated)}, from the cache" if data.repeated else run["run_id"]
    facts = [
        f'<span class="status {escape(end["status"])}">{escape(end["status"])}</span>',
        escape(title),
        f"engine {escape(run['engine'])}",
        f"seed {run['seed']}",
    ]
    if not data.repeated:
        facts += [duration(end["seconds"]), f"started {escape(run['started'][:19].replace('T', ' '))} UTC"]
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{escape(title)}</title>'
        f"<style>{STYLE.read_text()}</style></head><body><header><h1>{escape(run['recipe'])}</h1>"
        f"<p class=summary>{escape(run['summary'])}</p><p class=facts>{' · '.join(facts)}</p></header>"
        f"<main>{''.join(sections)}</main>"
        f"<footer>Made by posttrain. Every figure above is an artifact of the run, addressed by its digest.</footer>"
        f"</body></html>"
    )
