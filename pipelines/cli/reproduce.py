"""Command reproduce: run a claim at more and more seeds, and print what was found."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.contract.terminal import print_error
from pipelines.cli.output import effect_text, print_json, print_table, seconds_text
from pipelines.cli.stores import store_of
from pipelines.language.find import METHODS
from pipelines.methods.results import EARLIER_PROTOCOL

if TYPE_CHECKING:
    from pipelines.methods.reproduce import Reproduction
    from pipelines.plan.plan import Plan
    from pipelines.runs.measured import Measured

DIRECTIONS = {"not_lower": "not lower", "not_higher": "not higher"}


class StageFailed(Exception):
    """A run of the reproduction ended with failures, which are printed."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def reproduce(arguments: argparse.Namespace) -> int:
    """Run reproductions look by look and print effects with verdicts; exits 0 on any verdict.

    With --check nothing runs, and the exit code is 1 if a record no longer speaks of recipe and code.
    """
    if (arguments.slug is None) != arguments.all:
        raise InputError("expected a method's name, or --all for every method with a recipe")
    slugs = _every_slug() if arguments.all else [arguments.slug]
    if arguments.check:
        return _check(slugs, as_json=arguments.json)
    codes, records = [], []
    for slug in slugs:
        try:
            records.append(_reproduce(slug, arguments))
        except StageFailed as failed:
            codes.append(failed.exit_code)
    if arguments.json and records:
        print_json(records if arguments.all else records[0])
    return max(codes, default=0)


def _every_slug() -> list[str]:
    from pipelines.methods.methods import list_methods

    return [method.slug for method in list_methods() if method.recipe is not None]


def _reproduce(slug: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run one reproduction, print it unless JSON was asked for, and return its record; raises StageFailed."""
    from pipelines.methods.methods import method_file
    from pipelines.methods.protocol import reproduce as look_by_look
    from pipelines.methods.protocol import seeds_of
    from pipelines.methods.records import record_json
    from pipelines.methods.results import record_result
    from pipelines.recipe.recipe import load_recipe

    runs = _Runs(slug, arguments)
    recipe = load_recipe(runs.name, arguments.overrides)
    if recipe.hallmark is None:
        raise InputError(f"recipe {recipe.name!r} has no 'hallmark', so there is nothing to reproduce")
    file = method_file(runs.slug, recipe) if arguments.record else None  # check before hours of work, not after
    seeds = arguments.seeds
    found = look_by_look(recipe, runs.at) if seeds is None else runs.at(seeds_of(recipe, seeds))
    plan, measured, run_id = runs.last
    record = record_json(found, plan, measured.run_seconds) | {"run_id": run_id}
    if file is not None:
        record_result(file, record)
    if not arguments.json:
        print_reproduction(record)
    return record


def _check(slugs: Sequence[str], *, as_json: bool) -> int:
    """Print which records still speak of recipe and code; return 1 if one does not."""
    from pipelines.methods.methods import find_method

    found = {slug: find_method(slug).remarks for slug in slugs}
    if as_json:
        print_json(found)
    else:
        rows = [
            [slug, "no record" if remarks is None else "; ".join(remarks) or "stands"]
            for slug, remarks in found.items()
        ]
        print_table(["method", "record"], rows)
    return int(any(remarks and remarks != [EARLIER_PROTOCOL] for remarks in found.values()))


class _Runs:
    """Runs of one recipe with more and more seeds."""

    def __init__(self, slug: str, arguments: argparse.Namespace) -> None:
        self._arguments, self._store = arguments, store_of(arguments)
        self.slug, self.name = Path(slug).stem, _recipe(slug)
        self.last: tuple[Plan, Measured, str]

    def at(self, seeds: Sequence[int]) -> Reproduction:
        """Run with these seeds and return the measurement; raises StageFailed."""
        from pipelines.engines.engine import RunOptions
        from pipelines.engines.start import start_run
        from pipelines.methods.protocol import seed_override
        from pipelines.methods.reproduce import measure
        from pipelines.recipe.recipe import load_recipe
        from pipelines.runs.measured import Measured

        recipe = load_recipe(self.name, [*self._arguments.overrides, seed_override(seeds)])
        options = RunOptions(new=self._arguments.new, jobs=self._arguments.jobs)
        plan, result = start_run(recipe, self._store, engine="local", options=options, quiet_stdout=True)
        if result.exit_code:
            for stage, error in result.failures.items():
                print_error(f"{stage}: {error}")
            raise StageFailed(result.exit_code)
        self.last = plan, Measured(self._store, result.run_id), result.run_id
        return measure(self.slug, plan, self.last[1])


def _recipe(slug: str) -> str:
    """Return the recipe of a method: its name below recipes/methods, or a path unchanged."""
    is_path = slug.endswith((".yaml", ".yml"))
    return slug if is_path or slug.startswith(METHODS) else f"{METHODS}{slug}"


def print_reproduction(found: dict[str, Any]) -> None:
    """Print a reproduction for people: every arm's mean, the effects with their intervals, the verdicts."""
    print(f"{found['slug']}: {found['claim']}")
    seeds = ", ".join(map(str, found["seeds"]))
    print(f"seeds {seeds} | run {found['run_id']} | {seconds_text(found['run_seconds'])}\n")
    arms = list(found["seconds"]["arms"])
    rows = [_claim_row(part, entry, arms) for part, entry in found["claims"].items()]
    for group in ("preconditions", "active"):
        rows += [_condition_row(name, entry, arms) for name, entry in found[group].items()]
    for name, entry in found["secondary"].items():
        rows.append([name, *_means(entry, arms), _effect(entry), "-", "-"])
    shown = {**found["also"], **({"budget": found["budget"]} if found["budget"] else {})}
    rows += [[name, *_means(entry, arms), "-", "-", "-"] for name, entry in shown.items()]
    times = [seconds_text(found["seconds"]["arms"][arm]) for arm in arms]
    rows.append(["time of a seed", *times, "-", "-", "-"])
    print_table(["quantity", *arms, "effect", "claim", "found"], rows)
    print()
    if found["invalid"]:
        print(f"invalid: {found['invalid']}")
    for part, verdict in found["verdicts"].items():
        more = (found["claims"][part]["decision"] or {}).get("more_seeds")
        advice = f"; about {more} seeds would do, were the effect as seen" if verdict == "undecided" and more else ""
        print(f"{part}: {verdict}{advice}")


def _claim_row(part: str, entry: dict[str, Any], arms: Sequence[str]) -> list[str]:
    decision = entry["decision"]
    if decision is None:
        effect, verdict = _effect(entry), "to be looked at"
    else:
        effect = f"{effect_text(decision['interval'])} ({decision['confidence']:.1%}, {decision['look']} seeds)"
        verdict = decision["verdict"]
    return [f"{part}: {entry['name']}", *_means(entry, arms), effect, claim_text(entry), verdict]


def _condition_row(name: str, entry: dict[str, Any], arms: Sequence[str]) -> list[str]:
    bounds = [f"at {end} {entry[f'at_{end}']:g}" for end in ("least", "most") if f"at_{end}" in entry]
    claim = f"{entry['effect']} {', '.join(bounds)}"
    return [name, *_means(entry, arms), f"{entry['mean']:+.4g}", claim, "holds" if entry["holds"] else "does not hold"]


def _effect(entry: dict[str, Any]) -> str:
    return f"{effect_text(entry['interval'])} (95%)"


def _means(entry: dict[str, Any], arms: Sequence[str]) -> list[str]:
    return [f"{sum(values) / len(values):.4g}" for arm in arms if (values := entry["arms"][arm])]


def claim_text(entry: dict[str, Any]) -> str:
    """Return the claim about an effect: "higher by 0.02", "method / baseline - 1 lower by 0.1"."""
    effect = "" if entry["effect"] == "method - baseline" else f"{entry['effect']} "
    return f"{effect}{DIRECTIONS.get(entry['direction'], entry['direction'])} by {entry['floor']:g}"
