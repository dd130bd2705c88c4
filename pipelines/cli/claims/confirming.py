"""reproduce --confirm: run one recorded seed again, and renew the digests of a record whose numbers all come again."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.contract.terminal import print_error, visible_line
from pipelines.cli.claims.runs import Runs
from pipelines.cli.output import print_table
from pipelines.methods.results import EARLIER_PROTOCOL

if TYPE_CHECKING:
    from pipelines.methods.confirm import Difference


def confirm(slug: str, arguments: argparse.Namespace) -> dict[str, Any] | None:
    """Confirm the record of a method, print what came out unless JSON was asked for, and return it.

    With --all, None for methods without a record of today's protocol, and for those whose record stands. Raises
    StageFailed, and InputError for a method without a record.
    """
    found = _confirmed(Runs(slug, arguments), chosen=not arguments.all)
    if found is not None and not arguments.json:
        print_confirmation(found)
    return found


def _confirmed(runs: Runs, *, chosen: bool) -> dict[str, Any] | None:
    from pipelines.methods.confirm import beyond_confirmation, confirmation, differences, renewed
    from pipelines.methods.methods import method_file
    from pipelines.methods.recorded import read_record
    from pipelines.methods.records import FORMAT, what_changed
    from pipelines.methods.results import read_result, read_tuned, record_result, record_tuned
    from pipelines.methods.tuning import remarks_on_frozen, tuning_of, with_todays_digests
    from pipelines.plan.plan import build_plan

    file = method_file(runs.slug, runs.load())
    kept, tuned = read_result(file, runs.slug), read_tuned(file, runs.slug)
    if kept is None or kept.get("format") != FORMAT:
        if not chosen:
            return None
        raise InputError(f"{runs.slug}: {'no record' if kept is None else EARLIER_PROTOCOL}; {_make_again(runs.slug)}")
    record = read_record(kept)
    runs.overrides = list(record.setting.overrides)
    recipe = runs.load()
    plan = build_plan(recipe, "store", "run")
    if not chosen and not what_changed(kept, plan) and not remarks_on_frozen(recipe, tuned):
        return None
    if why := beyond_confirmation(kept, record, plan, tuned):
        return _outcome(runs.slug, record.seeds[:1], why=why)
    runs.overrides = record.given
    stale = tuned if tuning_of(recipe) is not None and remarks_on_frozen(recipe, tuned) else None
    counted, differing = (0, []) if stale is None else _tune_again(runs, stale)
    if not differing:
        numbers, differing = differences(record, runs.at(record.seeds[:1]))
        counted += numbers
    if not differing:
        if stale is not None:
            again = confirmation(stale["tuning"]["seeds"][:1])
            record_tuned(file, {**with_todays_digests(stale, recipe), "confirmed": again})
        record_result(file, renewed(kept, plan, record.seeds[:1]))
    return _outcome(runs.slug, record.seeds[:1], numbers=counted, differing=differing)


def _tune_again(runs: Runs, tuned: dict[str, Any]) -> tuple[int, list[Difference]]:
    """Run the first seed of a tuning again; return how many numbers were compared, and those that differ."""
    from pipelines.methods.confirm import tuning_differences
    from pipelines.methods.tuning import tune

    return tuning_differences(tuned, tune(runs.load(), runs.run, tuned["tuning"]["seeds"][:1]))


def _make_again(slug: str) -> str:
    return f"make it by 'posttrain reproduce {slug} --record'"


def _outcome(
    slug: str,
    seeds: Sequence[int],
    *,
    numbers: int = 0,
    differing: Sequence[Difference] = (),
    why: Sequence[str] = (),
) -> dict[str, Any]:
    return {
        "slug": slug,
        "confirmed": not differing and not why,
        "seeds": list(seeds),
        "numbers": numbers,
        "differing": [{"quantity": d.quantity, "recorded": d.recorded, "found": d.found} for d in differing],
        "why": list(why),
    }


def print_confirmation(found: dict[str, Any]) -> None:
    """Print whether a record is confirmed; if not, what differs, and what to do."""
    slug, seeds = found["slug"], ", ".join(map(str, found["seeds"]))
    if found["confirmed"]:
        print(visible_line(f"{slug}: confirmed, {found['numbers']} numbers of seed {seeds} are as recorded"))
        return
    if found["why"]:
        print_error(visible_line(f"{slug}: not confirmed: {'; '.join(found['why'])}; {_make_again(slug)}"))
        return
    differing, numbers = found["differing"], found["numbers"]
    told = f"{len(differing)} of {numbers} numbers of seed {seeds} differ; the record stays as it is"
    rows = [[one["quantity"], _text(one["recorded"]), _text(one["found"])] for one in differing]
    print_table(["quantity", "recorded", "found"], rows)
    print_error(visible_line(f"{slug}: not confirmed: {told}; run it again with --record"))


def _text(number: float | None) -> str:
    return "-" if number is None else f"{number:.12g}"
