"""Commands on methods: methods, diff and reproduce."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.contract.terminal import print_error
from pipelines.cli.output import print_json, print_table, seconds_text
from pipelines.cli.stores import store_of
from pipelines.language.find import METHODS

if TYPE_CHECKING:
    from pipelines.methods.methods import Method


def methods(arguments: argparse.Namespace) -> int:
    """List all methods, or show one: its source, what distinguishes it, whether it runs and reproduces."""
    from pipelines.methods.methods import find_method, list_methods

    if arguments.slug is not None:
        show(find_method(arguments.slug), as_json=arguments.json)
        return 0
    found = [method.to_json() for method in list_methods()]
    if arguments.json:
        print_json(found)
        return 0
    rows = [
        [
            row["slug"],
            str(row["catalogue"] or "-"),
            cite(row["paper"]) if row["paper"] else "-",
            " > ".join(dict.fromkeys(row["stages"].values())) or coordinates(row["slots"]),
            row["status"],
            result_text(row["verdict"]),
        ]
        for row in found
    ]
    print_table(["method", "id", "paper", "slots or stages", "status", "last reproduction"], rows)
    return 0


def show(method: Method, *, as_json: bool) -> None:
    """Print one method: what it is, its slots or stages, the source of each constant, and what it leaves out."""
    constants = method.constants
    found = {**method.to_json(), "constants": [asdict(constant) for constant in constants]}
    if as_json:
        print_json(found)
        return
    number = f" ({found['catalogue']})" if found["catalogue"] is not None else ""
    print(f"{found['slug']}{number}: {found['title'] or '-'}, a {found['kind']} of {found['origin']}")
    for key in ("paper", "summary", "status", "recipe"):
        print(f"{key}: {found[key] or '-'}")
    print(f"last reproduction: {result_text(found['verdict'])}")
    for text in found["missing"]:
        print(f"left out: {text}")
    if found["stages"]:
        print(f"stages: {', '.join(f'{name} ({component})' for name, component in found['stages'].items())}")
    elif found["slots"]:
        print(f"slots: {coordinates(found['slots'])}")
    if constants:
        print()
        rows = [[constant.place, str(constant.value), constant.source or "-"] for constant in constants]
        print_table(["constant", "value", "source"], rows)


def cite(paper: str) -> str:
    """Return authors and year of a citation: "Yu et al. 2025"."""
    return paper.partition(",")[0]


def coordinates(slots: dict[str, Any]) -> str:
    """Return the names of a method's slots, without the ones that most methods share."""
    from components.rl.slots import step_slots

    shown = []
    for slot, given in slots.items():
        names = [spec["name"] for spec in (given if isinstance(given, list) else [given])]
        if names and names != [step_slots()[slot].default] and names != ["verifier"]:
            shown.append("+".join(names))
    return " ".join(shown)


def result_text(verdict: dict[str, Any] | None) -> str:
    """Return a verdict with the interval of each measure: "seen: entropy +0.1 [+0.05, +0.2]"."""
    if verdict is None:
        return "-"
    measures = "; ".join(f"{name} {effect_text(entry)}" for name, entry in verdict["measures"].items())
    return f"{verdict['verdict']}: {measures}"


def diff(arguments: argparse.Namespace) -> int:
    """Show the slots and constants in which two methods differ, with their sources."""
    from pipelines.methods.diff import diff_methods
    from pipelines.methods.slots_diff import Side

    found = diff_methods(arguments.a, arguments.b)
    if arguments.json:
        print_json({"a": arguments.a, "b": arguments.b, "differences": [asdict(row) for row in found]})
        return 0

    def text(side: Side | None) -> str:
        if side is None:
            return "-"
        value = " + ".join(side.value) or "-" if isinstance(side.value, list) else str(side.value)
        return value if side.source is None else f"{value}  ({side.source})"

    if not found:
        print(f"{arguments.a} and {arguments.b} do not differ")
        return 0
    print_table(["where", arguments.a, arguments.b], [[row.place, text(row.a), text(row.b)] for row in found])
    return 0


def reproduce(arguments: argparse.Namespace) -> int:
    """Run a method's reproduction on some seeds and print the effect with its verdict; exits 0 on any verdict."""
    from pipelines.engines.engine import RunOptions
    from pipelines.engines.start import start_run
    from pipelines.methods.methods import method_file
    from pipelines.methods.reproduce import measure, record_json
    from pipelines.methods.results import record_result
    from pipelines.recipe.layers import override_text
    from pipelines.recipe.recipe import load_recipe
    from pipelines.runs.measured import Measured

    overrides = list(arguments.overrides)
    if arguments.seeds is not None:
        overrides.append(override_text("matrix.seed", list(range(arguments.seeds))))
    recipe = load_recipe(_recipe(arguments.slug), overrides)
    if recipe.hallmark is None:
        raise InputError(f"recipe {recipe.name!r} has no 'hallmark', so there is nothing to reproduce")
    store = store_of(arguments)
    slug = Path(arguments.slug).stem
    file = method_file(slug, recipe) if arguments.record else None  # check before hours of work, not after
    options = RunOptions(new=arguments.new, jobs=arguments.jobs)
    plan, result = start_run(recipe, store, engine="local", options=options, quiet_stdout=True)
    if result.exit_code:
        for stage, error in result.failures.items():
            print_error(f"{stage}: {error}")
        return result.exit_code
    measured = Measured(store, result.run_id)
    found = record_json(measure(slug, plan, measured), plan, measured.run_seconds) | {"run_id": result.run_id}
    if file is not None:
        record_result(file, found)
    if arguments.json:
        print_json(found)
    else:
        print_reproduction(found)
    return 0


def _recipe(slug: str) -> str:
    """Return the recipe of a method: its name below recipes/methods, or a path unchanged."""
    is_path = slug.endswith((".yaml", ".yml"))
    return slug if is_path or slug.startswith(METHODS) else f"{METHODS}{slug}"


def print_reproduction(found: dict[str, Any]) -> None:
    """Print a reproduction for people: every arm's mean, the effect with its interval, the verdicts."""
    print(f"{found['slug']}: {found['claim']}")
    seeds = ", ".join(map(str, found["seeds"]))
    print(f"seeds {seeds} | run {found['run_id']} | {seconds_text(found['run_seconds'])}\n")
    arms = list(found["seconds"]["arms"])
    rows = []
    for name, entry in found["measures"].items():
        rows.append([name, *_means(entry, arms), effect_text(entry), claim_text(entry), entry["verdict"]])
    for name, entry in found["also"].items():
        rows.append([name, *_means(entry, arms), "-", "-", "-"])
    times = [seconds_text(found["seconds"]["arms"][arm]) for arm in arms]
    rows.append(["time of a seed", *times, "-", "-", "-"])
    print_table(["quantity", *arms, "effect [95 %]", "claim", "verdict"], rows)
    print(f"\nverdict: {found['verdict']}")


def _means(entry: dict[str, Any], arms: Sequence[str]) -> list[str]:
    return [f"{sum(values) / len(values):.4g}" for arm in arms if (values := entry["arms"][arm])]


def effect_text(entry: dict[str, Any]) -> str:
    """Return an effect with its interval: +0.0123 [+0.004, +0.021]."""
    interval = entry["interval"]
    ends = f" [{interval['low']:+.3g}, {interval['high']:+.3g}]" if "low" in interval else " [one seed: unknown]"
    return f"{interval['value']:+.3g}{ends}"


def claim_text(entry: dict[str, Any]) -> str:
    """Return the claim about an effect: "higher", "method / baseline - 1 lower by 0.1"."""
    effect = "" if entry["effect"] == "method - baseline" else f"{entry['effect']} "
    words = {"not_lower": "not lower", "not_higher": "not higher"}
    margin = f" by {entry['margin']:g}" if entry["margin"] else ""
    return f"{effect}{words.get(entry['direction'], entry['direction'])}{margin}"
