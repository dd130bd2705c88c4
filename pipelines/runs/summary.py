"""The table at the end of a run: what each model can do, with intervals, and where to look further."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from components.contract.errors import PosttrainError
from components.runtime.ledger.records import Cause, approval_key, asked_key, failure_key, run_key
from pipelines.report.collect import HEADLINE, Estimate, RunData, collect
from pipelines.runs.default_store import store_option

if TYPE_CHECKING:
    from rich.table import Table

    from components.runtime.store import Store
    from pipelines.runs.runs import RunResult


def print_ending(store: Store, result: RunResult) -> None:
    """Print how a run ended: results, failures, and where report, MLflow and the next step are."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    console.print()
    with suppress(PosttrainError):  # a damaged store: the rest is told all the same, and why by the report's line
        data = collect(store, result.run_id)
        if table := results_table(data):
            console.print(table)
        for stage in data.stages:
            for text in stage.unreadable:
                console.print(f"[yellow]{stage.name}[/]: {escape(text)}")
    for name, error in result.failures.items():
        console.print(f"[bold red]{name} failed[/]: {escape(error)}")
    console.print(f"run     {result.run_id}: {result.status}")
    console.print(f"report  {result.page or escape(f'none: {result.report_problem}')}")
    option = store_option(store)
    console.print(f"mlflow  posttrain ui{option}")
    if result.lineage_problem:
        pending = escape(result.lineage_problem)
        console.print(f"        some lineage is not there yet ({pending}): posttrain lineage sync{option}")
    elif result.lineage_waiting:
        count = f"{result.lineage_waiting} event{'' if result.lineage_waiting == 1 else 's'}"
        console.print(f"        {count} of lineage are on the way there; posttrain lineage sync{option} waits for them")
    for line in next_steps(store, result):
        console.print(f"next    {escape(line)}")


def next_steps(store: Store, result: RunResult) -> list[str]:
    """Return what to do after a run that has not come to a good end: a command each, or words."""
    if result.status == "succeeded" and result.page:
        return []
    try:
        entry = store.get(run_key(result.run_id)) or {}
        asked = [stage["name"] for stage in entry.get("stages", ()) if stage.get("needs_approval")]
        decisions = {name: store.get(approval_key(result.run_id, name)) for name in asked}
        waiting = [name for name in asked if store.get(asked_key(result.run_id, name)) and not decisions[name]]
        failures = {name: store.get(failure_key(result.run_id, name)) or {} for name in result.failures}
    except PosttrainError:  # a damaged record: the words below are right all the same
        entry, decisions, waiting, failures = {}, {}, [], {}
    if any(decision and not decision["approved"] for decision in decisions.values()):
        return [f"{entry['command']}{store_option(store)} --new"]
    causes = {name: failure.get("cause") for name, failure in failures.items()}
    if result.refused or Cause.REFUSED in causes.values():
        return ["mend the recipe or its data; then the same command goes on from here"]
    if again := [name for name, cause in causes.items() if cause == Cause.REPEATED]:
        return [
            f"{' and '.join(again)} failed as before, from the same inputs: mend the recipe, its data or the code; "
            "then the same command goes on from here"
        ]
    if result.status == "waiting" and waiting:
        return [f"posttrain approve {result.run_id} {name}{store_option(store)}" for name in waiting]
    if Cause.RAISED in causes.values():
        return ["the same command tries again from here"]
    return ["the same command goes on from here"]


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
