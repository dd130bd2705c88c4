"""Command ablate: which part of a method carries its effect."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.contract.terminal import visible_line
from pipelines.cli.claims.runs import Runs, StageFailed
from pipelines.cli.claims.tables import claim_text
from pipelines.cli.output import effect_text, print_json, print_table

if TYPE_CHECKING:
    from components.measure.intervals import Interval
    from pipelines.methods.ablation.judge import Ablation


def ablate(arguments: argparse.Namespace) -> int:
    """Run a method with one part reset at a time and print what each carries; exits 0 on any verdict."""
    from pipelines.methods.ablation.judge import ablate as look_by_look
    from pipelines.methods.ablation.parts import parts_of
    from pipelines.methods.ablation.plain import ablation_json

    runs = Runs(arguments.slug, arguments)
    recipe = runs.load()
    if recipe.hallmark is None or not recipe.hallmark.claims:
        raise InputError(f"recipe {recipe.name!r} claims nothing, so there is nothing to ablate")
    runs.freeze(recipe)
    parts = parts_of(runs.load())
    runs.overrides += parts.overrides()
    counts = recipe.hallmark.words.looks if arguments.seeds is None else [arguments.seeds]
    try:
        found = look_by_look(runs.load(), parts, runs.at, counts)
    except StageFailed as failed:
        return failed.exit_code
    record = ablation_json(found) | {"run_id": runs.last[2]}
    if arguments.json:
        print_json(record)
    else:
        print_ablation(found, record)
    return 0


def print_ablation(found: Ablation, record: dict[str, Any]) -> None:
    """Print a table for each claim: the whole method, then without each part."""
    print(visible_line(f"{record['slug']}: {record['claim']}"))
    print(f"seeds {', '.join(map(str, record['seeds']))} | run {record['run_id']}")
    for name, claim in found.found.claims.items():
        words = getattr(found.found.hallmark.words, name)
        told = claim_text({"effect": words.effect, "direction": words.direction, "floor": words.floor})
        print()
        print(visible_line(f"{name}: {words.name}, {told}"))
        spent = _spent(record["spent"], None)
        rows = [["the whole method", "", spent, _text(claim.interval), str(found.whole.verdict(name)), "", ""]]
        for part in found.parts.found:
            without = found.without[part.arm][name]
            carried = _text(without.carried.interval) if without.carried else "-"
            of = record["parts"][part.arm]
            row = [f"without {' and '.join(part.names)}", of["instead"], _spent(of["spent"], of["steps"])]
            row.append(_text(without.claim.interval))
            rows.append([*row, str(found.verdict(part, name)), carried, found.carries(part, name)])
        print_table(["arm", "instead", "spends", "effect", "claim", "the part's share", "so it"], rows)
    print()
    for slot, why in found.parts.refused.items():
        print(visible_line(f"{slot} cannot be reset: {why}"))
    if found.whole.budget:
        print(visible_line(f"spends: {found.whole.budget.measure.value.source}, as a multiple of the baseline's"))
    if found.whole.invalid:
        print(visible_line(f"invalid: {found.whole.invalid}"))
    print(record["chance"])


def _spent(share: float | None, steps: int | None) -> str:
    """Return what an arm spends beside the baseline, and the steps that make it so where they were scaled."""
    if share is None:
        return "-"
    return f"{share:.2f} x" + (f" in {steps} steps" if steps is not None else "")


def _text(interval: Interval) -> str:
    from pipelines.methods.records import interval_json

    return effect_text(interval_json(interval.value, interval.low, interval.high))
