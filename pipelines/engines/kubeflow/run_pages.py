"""What the last task shows on Kubeflow's page of a run: the report, and links to MLflow. Imports no kfp.

Kubeflow shows a report in a frame without rights, in which no link leads out of it; links are a page of their own.
"""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.terminal import visible_line
from components.runtime.ledger.ledger import load_run
from pipelines.engines.kubeflow.executor import write_file
from pipelines.engines.shared.mlflow_page import mlflow_address, run_addresses

if TYPE_CHECKING:
    from components.runtime.store import Store

REPORT, LINKS = "report", "links"
PAGES = {REPORT: "system.HTML", LINKS: "system.Markdown"}
"""Output of the last task -> Kubeflow's type of it."""
_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~&:])")


def show_run(store: Store, run_id: str, page: Path, *, report: Path, links: Path) -> None:
    """Write both pages of a run that has ended; `page` is its report."""
    report.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(page, report)
    write_file(links, _links(store, run_id))


def show_refusal(why: str, *, report: Path, links: Path) -> None:
    """Write both pages of a run that had not begun."""
    told = html.escape(visible_line(why))
    write_file(report, f"<!doctype html><title>no run</title><p>No run had begun: {told}</p>\n")
    write_file(links, f"No run had begun: {_escaped(why)}\n")


def _links(store: Store, run_id: str) -> str:
    """Return the run and its stages in Markdown, with their pages in MLflow where it has any."""
    record = load_run(store, run_id)
    base = mlflow_address(store)
    pages = run_addresses(store, base, run_id) if base else {}
    lines = [f"**{_linked(run_id, pages.get(''))}**: {_escaped(record.status)}", ""]
    lines += ["| stage | status | cache |", "| --- | --- | --- |"]
    for name in record.stage_names:
        entry = record.stages.get(name, {})
        status = "failed" if name in record.failed else str(entry.get("status", "not run"))
        cells = _linked(name, pages.get(name)), _escaped(status), _escaped(str(entry.get("cache", "")))
        lines.append(f"| {' | '.join(cells)} |")
    commands = [f"posttrain {verb} {run_id} --store {store.uri}" for verb in ("show", "report")]
    return "\n".join([*lines, "", *(f"    {visible_line(command)}" for command in commands)]) + "\n"


def _linked(text: str, address: str | None) -> str:
    """Return a text as a link; only addresses of the web are links."""
    if address is None or not re.fullmatch(r"https?://[^\s<>()\[\]\"'`]+", address):
        return _escaped(text)
    return f"[{_escaped(text)}]({address})"


def _escaped(text: str) -> str:
    """Return a text in one line in which Markdown and HTML see nothing of theirs."""
    return _MARKDOWN.sub(r"\\\1", visible_line(text))
