"""The table at the end of a run: each model's results with intervals, and where to find more."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from components.contract.errors import PosttrainError
from components.contract.terminal import visible, visible_line
from components.runtime.checkpoints.moves import asked as asked_to_move
from components.runtime.ledger.approvals import decision_on, open_question
from components.runtime.ledger.records import Cause, failure_key, run_key
from pipelines.report.collect import collect
from pipelines.report.content import duration
from pipelines.report.evaluations import Estimate, ResultTable, result_tables
from pipelines.report.undone import undone_lines
from pipelines.runs.alarms import ending_lines
from pipelines.runs.default_store import store_option
from pipelines.runs.forked import fork_lines
from pipelines.runs.trials import trial_tables

if TYPE_CHECKING:
    from rich.table import Table

    from components.contract.display import Results
    from components.runtime.store import Store
    from pipelines.report.collect import RunData
    from pipelines.runs.runs import RunResult

MOST_UNDONE = 8
"""Stages whose counts the end of a run lists; `show` and the report list all."""


def print_ending(store: Store, result: RunResult) -> None:
    """Print how a run ended: results, failures, report, MLflow page and next steps."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    console.print()
    cost, left_out, data = "", {}, None
    with suppress(PosttrainError):  # a damaged store: the rest is still printed, and the report's line gives the reason
        data = collect(store, result.run_id)
        cost = _cost_words(data)
        left_out = {stage.name: error for stage in data.stages if stage.entry and (error := stage.error)}
        for found in result_tables(data):
            console.print(results_table(found))
        for part in trial_tables(data):
            console.print(part, markup=False)
        for stage in data.stages:
            for text in stage.unreadable:
                console.print(f"[yellow]{stage.name}[/]: {escape(visible(text))}")
        for stage in data.stages:
            for wrong, helps in ending_lines(stage.name, stage.alarms):
                console.print(wrong, style="red", markup=False)
                if helps:
                    console.print(f"  {helps}", markup=False)
    for name, error in result.failures.items():
        console.print(f"[bold red]{name} failed[/]: {escape(visible(error))}")
    for name, error in left_out.items():
        console.print(f"[bold red]{name} failed[/], and the run went on without it: {escape(visible(error))}")
    lines = _undone_lines(data)
    with_ = f", and left something undone in {len(lines)} stage{'' if len(lines) == 1 else 's'}" if lines else ""
    console.print(f"run     {result.run_id}: {result.status}{with_}")
    for line in lines[:MOST_UNDONE]:
        console.print(f"undone  {escape(visible(line))}")
    if len(lines) > MOST_UNDONE:
        console.print(f"        and {len(lines) - MOST_UNDONE} more stages: posttrain show {result.run_id}")
    for line in fork_lines(data.run, {stage.name: stage.entry for stage in data.stages}) if data else ():
        console.print(f"fork    {escape(visible(line))}")
    for line in data.moves if data else ():
        console.print(f"move    {escape(visible(line))}")
    if cost:
        console.print(f"cost    {escape(cost)}")
    console.print(f"report  {result.page or escape(visible(f'none: {result.report_problem}'))}")
    option = store_option(store)
    console.print(f"mlflow  posttrain ui{option}")
    if result.lineage_problem:
        pending = escape(visible(result.lineage_problem))
        console.print(f"        some lineage is not there yet ({pending}): posttrain lineage sync{option}")
    elif result.lineage_waiting:
        count = f"{result.lineage_waiting} event{'' if result.lineage_waiting == 1 else 's'}"
        on_the_way = f"are on the way there; posttrain lineage sync{option} waits for them"
        later = "come with posttrain ui, or with the next run that has something to do"
        console.print(f"        {count} of lineage {on_the_way if result.lineage_on_the_way else later}")
    for line in next_steps(store, result):
        console.print(f"next    {escape(visible(line))}")


def _cost_words(data: RunData) -> str:
    """Return what a run cost, and the wall time in which an engine worked on it; empty if nothing is known."""
    wall = f"wall time {duration(data.end['seconds'])}" if data.end else ""
    return "; ".join(filter(None, [data.cost.in_words(), wall]))


def _undone_lines(data: RunData | None) -> list[str]:
    """Return a line for each stage that ended well and left something undone."""
    if data is None:
        return []
    ended = ((stage, stage.entry) for stage in data.stages if stage.entry is not None and not stage.error)
    return list(undone_lines((stage.name, stage.component, entry.get("metrics") or {}) for stage, entry in ended))


def next_steps(store: Store, result: RunResult, *, same: str = "the same command") -> list[str]:
    """Return what to do after an unsuccessful run: commands, or words; `same` is what goes on with it."""
    if result.status == "succeeded" and result.page:
        return []
    try:
        if (move := asked_to_move(store, result.run_id)) is not None:
            return [f"posttrain show {move['as']}{store_option(store)}"] if move.get("as") else []
        entry = store.get(run_key(result.run_id)) or {}
        asked = [stage["name"] for stage in entry.get("stages", ()) if stage.get("needs_approval")]
        decisions = {name: decision_on(store.get, result.run_id, name) for name in asked}
        waiting = [name for name in asked if open_question(store.get, result.run_id, name)]
        failures = {name: store.get(failure_key(result.run_id, name)) or {} for name in result.failures}
    except PosttrainError:  # a damaged record: the words below still apply
        entry, decisions, waiting, failures = {}, {}, [], {}
    if any(decision and not decision["approved"] for decision in decisions.values()):
        return [f"{entry['command']}{store_option(store)} --new"]
    causes = {name: failure.get("cause") for name, failure in failures.items()}
    if Cause.SPENT in causes.values():
        moved = (
            f"posttrain move {result.run_id} --to {entry['engine']} --cheapest --set budget=...{store_option(store)}"
        )
        return [f"{same} with a higher budget, --set budget=..., goes on from there", f"on cheaper pools: {moved}"]
    if edits := {name: failure["edit"] for name, failure in failures.items() if failure.get("edit")}:
        return [
            f"edit {place}; then {same} runs {name} from its start, and reuses the stages that do not use this file"
            for name, place in edits.items()
        ]
    if result.refused or Cause.REFUSED in causes.values():
        return [f"fix the recipe or its data, then run {same}: finished stages are reused"]
    if again := [name for name, cause in causes.items() if cause == Cause.REPEATED]:
        return [
            f"{' and '.join(again)} failed as before, from the same inputs: fix the recipe, its data or the code, "
            f"then run {same}: finished stages are reused"
        ]
    if result.status == "waiting" and waiting:
        return [f"posttrain approve {result.run_id} {name}{store_option(store)}" for name in waiting]
    if Cause.RAISED in causes.values():
        return [f"run {same} to try again; finished work is kept"]
    return [f"run {same} to continue; finished work is kept"]


def results_table(found: ResultTable) -> Table:
    """Return each model's measurements, with intervals."""
    from rich.markup import escape
    from rich.table import Table

    results = found.results
    about = f"{results.about or results.name}{', %' if results.share else ''}"
    intervals = f", with 95 % intervals over {' and '.join(found.over())}" if found.over() else ""
    table = Table(title=escape(visible_line(about + intervals)), title_justify="left")
    table.add_column("model")
    for title in found.columns.values():
        table.add_column(escape(visible_line(title)), justify="right")
    for item in found.evaluations:
        cells = [_text(item.estimate(metric), results) for metric in found.columns]
        table.add_row(escape(visible_line(item.model)), *map(escape, cells))
    return table


def _text(estimate: Estimate | None, results: Results) -> str:
    """Return a number, or a share in per cent, with its interval."""
    if estimate is None:
        return "-"

    def text(value: float) -> str:
        return f"{100 * value:5.{results.digits}f}" if results.share else f"{value:.{results.digits}f}"

    if estimate.low is None or estimate.high is None:
        return text(estimate.value)
    return f"{text(estimate.value)}  [{text(estimate.low)}, {text(estimate.high)}]"
