"""Command reproduce: run a claim at more and more seeds, and print what was found."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

from components.contract.errors import InputError
from components.contract.terminal import print_error
from pipelines.cli.claims.confirming import confirm
from pipelines.cli.claims.runs import Runs, StageFailed
from pipelines.cli.claims.tables import print_reproduction, print_summary
from pipelines.cli.claims.tuning import tune
from pipelines.cli.output import print_json, print_table
from pipelines.cli.stores import store_of
from pipelines.methods.results import EARLIER_PROTOCOL


def reproduce(arguments: argparse.Namespace) -> int:
    """Run reproductions look by look and print effects with verdicts; exits 0 on any verdict.

    With --all a method that cannot be judged is told, and the others go on. With --check nothing runs, and the exit
    code is 1 if a record no longer speaks of recipe and code. With --confirm one recorded seed runs again, and 1 says
    that a number differs. With --tune the setting of every arm is chosen, for reproductions to come.
    """
    _refuse_contradictions(arguments)
    slugs = _every_slug() if arguments.all else [arguments.slug]
    if arguments.check:
        return _check(slugs, as_json=arguments.json)
    from pipelines.runs.runs import EXIT_CODES

    one = _tune if arguments.tune else confirm if arguments.confirm else _reproduce
    began = time.monotonic()
    codes, records, failed = [], [], []
    for slug in slugs:
        try:
            if (record := one(slug, arguments)) is not None:
                records.append(record)
                codes.append(int(arguments.confirm and not record["confirmed"]))
        except StageFailed as ending:
            codes.append(ending.exit_code)
            failed.append(slug)
            if ending.exit_code == EXIT_CODES["stopped"]:
                break
        except InputError as error:
            if not arguments.all:
                raise
            print_error(f"{slug}: {error}")
            codes.append(error.exit_code)
            failed.append(slug)
    if arguments.json:
        if records:
            print_json(records if arguments.all else records[0])
    elif one is _reproduce and arguments.all:
        print_summary(records, failed, store_of(arguments), time.monotonic() - began)
    elif one is confirm and arguments.all:
        kept = sum(record["confirmed"] for record in records)
        differ = len(records) - kept
        print(f"{kept} records confirmed, {differ} not, {len(failed)} methods failed; all other records stand")
    return max(codes, default=0)


def _refuse_contradictions(arguments: argparse.Namespace) -> None:
    """Raise InputError for options that exclude one another."""
    if (arguments.slug is None) != arguments.all:
        raise InputError("expected a method's name, or --all for every method with a recipe")
    if arguments.tune and (arguments.check or arguments.seeds or arguments.record):
        raise InputError("--tune chooses the arms' setting and keeps it; it has no --check, --seeds or --record")
    others = (arguments.check, arguments.tune, arguments.seeds, arguments.record, arguments.overrides)
    if arguments.confirm and any(others):
        raise InputError("--confirm uses the record's settings: leave out --check, --tune, --seeds, --record and --set")


def _every_slug() -> list[str]:
    from pipelines.methods.methods import list_methods

    return [method.slug for method in list_methods() if method.recipe is not None]


def _tune(slug: str, arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Tune a method's arms; with --all, pass over those that have nothing to tune."""
    runs = Runs(slug, arguments)
    hallmark = runs.load().hallmark
    if arguments.all and (hallmark is None or hallmark.words.tuning is None):
        return None
    return tune(runs, as_json=arguments.json)


def _reproduce(slug: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Run one reproduction, print it unless JSON was asked for, and return its record; raises StageFailed."""
    from pipelines.methods.methods import method_file
    from pipelines.methods.protocol import reproduce as look_by_look
    from pipelines.methods.protocol import seeds_of
    from pipelines.methods.records import record_json
    from pipelines.methods.results import record_result

    runs = Runs(slug, arguments)
    recipe = runs.load()
    if recipe.hallmark is None:
        raise InputError(f"recipe {recipe.name!r} has no 'hallmark', so there is nothing to reproduce")
    file = method_file(runs.slug, recipe) if arguments.record else None  # check before hours of work, not after
    runs.freeze(recipe)
    seeds = arguments.seeds
    found = look_by_look(recipe, runs.at) if seeds is None else runs.at(seeds_of(recipe, seeds))
    plan, measured, run_id = runs.last
    record = record_json(found, plan, measured.run_seconds, runs.cpu_seconds()) | {"run_id": run_id}
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
    stale = any(remarks and remarks != [EARLIER_PROTOCOL] for remarks in found.values())
    if stale and not as_json:
        print("\nwhere code changed and numbers did not, 'posttrain reproduce METHOD --confirm' says so in minutes")
    return int(stale)
