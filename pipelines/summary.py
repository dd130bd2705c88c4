"""The table at the end of a run: what each model can do, with intervals, and where to look further."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.cli.parser import DEFAULT_STORE, STORE_VARIABLE
from pipelines.report.collect import HEADLINE, Estimate, RunData, collect

if TYPE_CHECKING:
    from rich.table import Table

    from components.runtime.store import Store
    from pipelines.runs import RunResult


def print_ending(store: Store, result: RunResult) -> None:
    """Print how a run ended: results, failures, and where report, MLflow and the next step are."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    console.print()
    table = results_table(collect(store, result.run_id))
    if table:
        console.print(table)
    for stage, error in result.failures.items():
        console.print(f"[bold red]{stage} failed[/]: {escape(error)}")
    console.print(f"run     {result.run_id}: {result.status}")
    console.print(f"report  {result.page}")
    option = _store_option(store)
    console.print(f"mlflow  posttrain ui{option}")
    if result.lineage_problem:
        pending = escape(result.lineage_problem)
        console.print(f"        some lineage is not there yet ({pending}): posttrain lineage sync{option}")
    if result.status != "succeeded":
        console.print("next    the same command goes on from here")


def _store_option(store: Store) -> str:
    """Return --store as commands on this run need it, or nothing where they find the store by themselves."""
    default = os.environ.get(STORE_VARIABLE) or DEFAULT_STORE
    found = store.uri in (default, str(Path(default).absolute()))
    return "" if found else f" --store {shlex.quote(store.uri)}"


def results_table(data: RunData) -> Table | None:
    """Return pass@1 per evaluated model and domain with intervals, or None when nothing was evaluated."""
    from rich.markup import escape
    from rich.table import Table

    if not data.evaluations:
        return None
    over = sorted({estimate.over for row in _rows(data) for estimate in row[1] if estimate})
    table = Table(title=f"held-out pass@1, %, with 95 % intervals over {' and '.join(over)}", title_justify="left")
    table.add_column("model")
    for domain in data.domains:
        table.add_column(domain, justify="right")
    for model, estimates in _rows(data):
        table.add_row(escape(model), *(interval_text(estimate) for estimate in estimates))
    return table


def interval_text(estimate: Estimate | None) -> str:
    """Return a share in per cent with its interval, as plain text."""
    if estimate is None:
        return "-"
    text = f"{100 * estimate.value:5.1f}"
    if estimate.low is not None and estimate.high is not None:
        text += f"  [{100 * estimate.low:5.1f}, {100 * estimate.high:5.1f}]"
    return text


def _rows(data: RunData) -> list[tuple[str, list[Estimate | None]]]:
    return [(item.model, [item.estimate(HEADLINE + domain) for domain in data.domains]) for item in data.evaluations]
