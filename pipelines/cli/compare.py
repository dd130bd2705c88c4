"""The command compare: runs, cells of their matrices, or all arms of one run."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.contract.operator_files.names import without_digests
from components.contract.terminal import visible_line
from pipelines.cli.output import print_json, print_rich, print_table
from pipelines.cli.stores import store_of
from pipelines.runs.find import find_run

if TYPE_CHECKING:
    from components.runtime.store import Store
    from pipelines.report.evaluations import Estimate
    from pipelines.report.several.measured import Compared, Row
    from pipelines.report.several.sides import Side


def compare(arguments: argparse.Namespace) -> int:
    """Compare two or more runs or cells with the first, or the arms of one run with its baseline."""
    from pipelines.report.several.measured import compare_sides

    store = store_of(arguments)
    sides = sides_of(store, arguments.runs)
    compared = compare_sides(store, sides)
    if len(sides) == 2 and not any(side.cell for side in sides):
        return _two_runs(store, sides, compared, as_json=arguments.json)
    if arguments.json:
        print_json(compared.to_json())
        return 0
    _print_settings(compared)
    _print_measured(compared)
    _print_forks(compared)
    _print_costs(compared)
    return 0


def sides_of(store: Store, texts: Sequence[str]) -> list[Side]:
    """Return the sides that RUN, RUN:CELL ... mean; of one RUN the arms of its matrix."""
    from pipelines.report.several.sides import arms_of

    sides = [_side(store, text) for text in texts]
    if len(sides) > 1:
        return sides
    if sides[0].cell:
        raise InputError(f"{texts[0]}: name a second cell or run to compare it with, or the run alone for all its arms")
    return arms_of(sides[0].data)


def _side(store: Store, text: str) -> Side:
    from pipelines.report.collect import collect
    from pipelines.report.several.sides import Side, cell_of

    run, colon, cell = text.partition(":")
    data = collect(store, find_run(store, run))
    return cell_of(data, cell) if colon else Side(data, {})


def _two_runs(store: Store, sides: Sequence[Side], compared: Compared, *, as_json: bool) -> int:
    """Show everything in which two runs differ: stages, parameters, code, metrics, and results on the same prompts."""
    from components.runtime.lineage.graph.compare import compare_runs
    from components.runtime.lineage.graph.tables import comparison_tables

    comparison = compare_runs(store, sides[0].run_id, sides[1].run_id)
    if as_json:
        measured = compared.to_json()
        shown = ("results", "differences", "problems", "costs", "forks")
        print_json(comparison.to_json() | {name: measured[name] for name in shown})
        return 0
    print_rich(comparison_tables(comparison))
    if comparison.params or comparison.metrics or comparison.stages:
        _print_measured(compared)
    _print_forks(compared)
    _print_costs(compared)
    return 0


def _print_forks(compared: Compared) -> None:
    """Print what forks differ in from the fork on, step by step."""
    for pair in compared.forks:
        equal, rows = pair.shared()
        same = "all" if equal == rows else f"{equal} of"
        print(f"\nFrom {pair.name}@{pair.step} on; before it {same} {rows} rows of the history are equal")
        head = ["metric", pair.sides[0], pair.sides[1], "difference", "steps"]
        cells = [
            [
                one.column,
                f"{one.before:.4g}",
                f"{one.now:.4g}",
                f"{one.difference:+.3g}" + ("" if one.low is None else f" [{one.low:+.2g}, {one.high:+.2g}]"),
                str(len(one.steps)),
            ]
            for one in pair.moved()
        ]
        print_table([visible_line(name) for name in head], cells)


def _print_settings(compared: Compared) -> None:
    from pipelines.report.settings import settings_table

    for part in settings_table(compared.titles, compared.settings):
        rows = [[without_digests(visible_line(str(cell))) for cell in row] for row in part.rows]
        print_table([visible_line(name) for name in part.head], rows, title="Parameters that differ")
        return
    print("No parameter differs.")


def _print_measured(compared: Compared) -> None:
    """Print the results: shares in per cent, their differences in points."""
    from pipelines.report.arms.effects import about_pairs

    if compared.rows:
        rows = [[visible_line(cell) for cell in _texts(row)] for row in compared.rows]
        print(f"\n{about_pairs(compared.over)}" if compared.over else "")
        print_table(["model", "metric", "arm", "value", f"minus {visible_line(compared.titles[0])}", "p"], rows)
    for line in compared.problems:
        print(f"\n{visible_line(line)}")


def _print_costs(compared: Compared) -> None:
    """Print what each side cost, if that was recorded, and what it shares with other cells of its run."""
    known = [(name, own, shared) for name, own, shared in compared.costs if own.in_words() or shared.in_words()]
    if known:
        rows = [[visible_line(name), own.in_words() or "-", shared.in_words() or "-"] for name, own, shared in known]
        one = not any(shared.in_words() for _, _, shared in known)
        print()
        print_table(["", "cost", *([] if one else ["shared with other cells"])], [row[: 3 - one] for row in rows])


def _texts(row: Row) -> list[str]:
    moved, digits, scale = row.difference, row.results.digits, 100 if row.results.share else 1
    change = _text(moved.estimate, f"+.{digits}f", scale) if moved else ("nothing to pair" if row.against else "")
    chance = f"{moved.p:.2g}" if moved and moved.p is not None else ""
    return [row.model, row.title, row.arm, _text(row.estimate, f".{digits}f", scale), change, chance]


def _text(estimate: Estimate, form: str, scale: float) -> str:
    text = format(scale * estimate.value, form)
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text}  [{format(scale * estimate.low, form)}, {format(scale * estimate.high, form)}]"
