"""posttrain show: one run, its stages, what they measured and made, and what went wrong."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from components.contract.headlines import in_order
from components.runtime.ledger.approvals import decision_text, seen_text
from components.runtime.ledger.ledger import load_run
from components.runtime.ledger.shown import show_json
from pipelines.cli.damage import damage_lines
from pipelines.cli.output import print_json, print_styled, print_table, print_text, seconds_text
from pipelines.cli.stores import store_of
from pipelines.plan.costs import RunCost, StageCost, cost_cell, run_cost, with_cost
from pipelines.report.moves import move_lines
from pipelines.report.undone import undone_lines
from pipelines.runs.alarms import ending_lines
from pipelines.runs.find import find_run
from pipelines.runs.forked import fork_lines

if TYPE_CHECKING:
    from components.runtime.ledger.ledger import RunRecord
    from components.runtime.store import Store

MAX_METRICS = 4
DIGEST_LENGTH = 12
COLUMNS = ("stage", "component", "status", "cache", "waited", "took", "cost", "metrics", "outputs")


def show(arguments: argparse.Namespace) -> int:
    """Show one run: its stages, their metrics and where their outputs are."""
    store = store_of(arguments)
    record = load_run(store, find_run(store, arguments.run))
    cost = run_cost(store, {"recipe": "", **record.entry, "run_id": record.run_id}, record.stages)
    shown = with_cost(show_json(record), cost)
    damaged = damage_lines(store, _made(shown["stages"]))
    if arguments.json:
        print_json(shown | ({"damage": damaged} if damaged else {}))
    else:
        _print_head(store, record, shown)
        _print_stages(shown["stages"], cost)
        _print_remarks(record, shown["stages"])
        for line in damaged:
            print_text(f"\n{line}")
        if command := record.entry.get("command"):
            print_text(f"\nreproduce: {command}")
    return int(bool(record.damaged or damaged))


def _made(stages: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the name of each output by its digest."""
    return {
        output["digest"]: f"{stage['name']}.{port}" for stage in stages for port, output in stage["outputs"].items()
    }


def _print_head(store: Store, record: RunRecord, shown: Mapping[str, Any]) -> None:
    """Print what run it is, and where it came from."""
    took = seconds_text(shown["seconds"])
    about = f"recipe {shown['recipe'] or '-'}, started {shown['started'] or '-'}, took {took}"
    print_text(f"{shown['run_id']}: {shown['status']}, {about}")
    for line in fork_lines(record.entry, record.stages):
        print_text(f"fork {line}")
    for line in move_lines(store, record.run_id, record.entry):
        print_text(f"move {line}")
    if shown["trigger"]:
        print_text(f"started by {shown['trigger']['text']}")


def _print_stages(stages: Sequence[Mapping[str, Any]], cost: RunCost) -> None:
    """Print a line for each stage, then what the run cost."""
    print()
    rows = [
        [
            stage["name"],
            stage["component"] or "-",
            stage["status"],
            {"hit": "cached", "miss": "ran"}.get(stage["cache"], "-"),
            _waited(cost.stages.get(stage["name"])),
            seconds_text(stage["seconds"]),
            cost_cell(cost.stages.get(stage["name"])),
            _metrics(in_order(str(stage["component"]), stage["metrics"])),
            "  ".join(f"{port} {output['digest'][:DIGEST_LENGTH]}" for port, output in stage["outputs"].items()),
        ]
        for stage in stages
    ]
    print_table(COLUMNS, rows)
    if words := cost.in_words():
        print(f"\ncost: {words}")


def _print_remarks(record: RunRecord, stages: Sequence[Mapping[str, Any]]) -> None:
    """Print what was skipped, left undone, failed or cannot be read, and every alarm."""
    for stage in stages:
        if stage["reason"]:
            print_text(f"\n{stage['name']} was skipped: {stage['reason']}")
    for stage in stages:
        if stage["approval"] and (line := _approval_line(stage["name"], stage["approval"])):
            print_text(f"\n{line}")
    _print_alarms(record.alarms)
    for line in undone_lines((stage["name"], str(stage["component"]), stage["metrics"]) for stage in stages):
        print_text(f"\nundone in {line}")
    for name, error in record.failed.items():
        goes_on = "; the run went on without it" if name in record.stages else ""
        print_text(f"\n{name} failed: {error}{goes_on}")
        for port, output in record.kept.get(name, {}).items():
            print_text(f"kept of it: {port} {output['digest'][:DIGEST_LENGTH]}")
    for name, text in record.damaged.items():
        print_text(f"\n{name or 'the run'}: its record cannot be read: {text}")


def _approval_line(stage: str, approval: Mapping[str, Any]) -> str:
    """Return who decided on a stage, when and what there was to see; empty if it has not asked."""
    if approval["approved"] is not None:
        return f"{stage} was {decision_text(approval)}"
    if not approval["asked"]:
        return ""
    line = f"{stage} asks since {approval['asked']}: {approval['message']}"
    return f"{line}; to see: {words}" if (words := seen_text(approval["seen"])) else line


def _print_alarms(alarms: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Print the alarms of each stage, red in a terminal."""
    for stage, raised in alarms.items():
        for wrong, helps in ending_lines(stage, raised):
            print()
            print_styled(wrong, "red")
            if helps:
                print_text(helps)


def _waited(cost: StageCost | None) -> str:
    """Return how long a stage waited for cores or a node before its attempts, where its engine told that."""
    known = cost.waited_seconds if cost is not None else None
    return "-" if known is None else seconds_text(known)


def _metrics(metrics: dict[str, float]) -> str:
    shown = [f"{name} {value:.4g}" for name, value in list(metrics.items())[:MAX_METRICS]]
    more = [f"and {len(metrics) - MAX_METRICS} more"] if len(metrics) > MAX_METRICS else []
    return "  ".join([*shown, *more])
