"""The command bisect: which difference between two recipes or runs moved a metric."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.contract.terminal import visible_line
from pipelines.cli.output import print_json, print_table, print_text, seconds_text
from pipelines.cli.stores import store_of

if TYPE_CHECKING:
    from pipelines.bisection.bisect import Found
    from pipelines.bisection.case import Case

MAX_CELL = 70


def bisect(arguments: argparse.Namespace) -> int:
    """Name the causes of a difference, and print what was tried; the exit code is 1 if none could be named."""
    from pipelines.bisection.bisect import Bisection
    from pipelines.bisection.case import prepare
    from pipelines.bisection.foresight import foresee, foresight_lines
    from pipelines.bisection.oracle import looks_of
    from pipelines.bisection.plain import case_json, found_json
    from pipelines.bisection.trials import Trials
    from pipelines.cli.stopping import terminate_like_interrupt

    _refuse_seeds(arguments)
    store = store_of(arguments)
    case = prepare(store, arguments.good, arguments.bad, arguments.metric)
    looks = looks_of(arguments.seeds, max(arguments.seeds, arguments.max_seeds))
    foreseen = foresee(store, case, looks, arguments.max_halves)
    if not arguments.json:
        print_case(case)
        for line in foresight_lines(foreseen, case):
            print_text(line)
    if arguments.plan:
        if arguments.json:
            print_json(case_json(case) | {"plan": foreseen})
        return 0
    terminate_like_interrupt()
    trials = Trials(store, case.halves, case.metric, jobs=arguments.jobs)
    found = Bisection(
        trials, case.differences, looks, case.seed, arguments.max_halves, _tell, recorded=case.recorded
    ).run()
    page = _page(store, case, found, arguments.output)
    if arguments.json:
        print_json(case_json(case) | found_json(found) | {"page": page})
    else:
        print_found(case, found)
        print_text(f"\nreport: {page}")
    return int(not found.causes)


def _refuse_seeds(arguments: argparse.Namespace) -> None:
    if arguments.seeds < 2:
        raise InputError("--seeds: expected at least 2, since one pair has no interval")


def _tell(line: str) -> None:
    print(visible_line(line), file=sys.stderr, flush=True)


def print_case(case: Case) -> None:
    """Print the ends and everything in which they differ, by kind."""
    from pipelines.bisection.differences import KINDS

    good, bad = (visible_line(end.title) for end in case.ends)
    print(f"GOOD {good}, BAD {bad}: {case.metric.text}, from seed {case.seed}")
    if versions := case.halves.versions:
        print_text(f"code: GOOD {versions.good.title}, BAD {versions.bad.title}")
    print()
    rows = []
    for kind in KINDS:
        for number, difference in enumerate(case.differences, start=1):
            if difference.kind == kind:
                reach = difference.stages[0] if difference.stages else "not alone"
                rows.append([str(number), kind, reach, _cell(difference.text)])
    print_table(["number", "kind", "first stage", "GOOD -> BAD"], rows)
    for difference in case.idle:
        print_text(f"changes no stage behind the metric: {_cell(difference.text)}")
    for note in case.notes:
        print_text(f"note: {note}")
    print()


def _cell(text: str) -> str:
    text = visible_line(text)
    return text if len(text) <= MAX_CELL else f"{text[: MAX_CELL - 3]}..."


def print_found(case: Case, found: Found) -> None:
    """Print every half that was tried, then the causes."""
    from pipelines.bisection.plain import HEAD, cause_lines, tried_row

    print()
    rows = [tried_row(found, one) for one in found.tried]
    if rows:
        print_table(HEAD, [[str(place), *row] for place, row in enumerate(rows, start=1)])
        print()
    for line in cause_lines(found):
        print_text(line)
    for note in found.notes:
        print_text(f"note: {note}")
    took = f"{seconds_text(found.halves_seconds)} of new work, that of {found.worth:.1f} runs of GOOD at one seed"
    print(f"\n{len(found.tried)} halves: {took}; the ends: {seconds_text(found.ends_seconds)}")


def _page(store: object, case: Case, found: Found, output: str | None) -> str:
    """Store the report and return where it is; copy it on request."""
    from pipelines.bisection.page import build_page

    page = build_page(store, case, found)  # type: ignore[arg-type]
    if output is None:
        return str(page)
    target = Path(output) / "index.html" if Path(output).is_dir() else Path(output)
    try:
        shutil.copyfile(page, target)
    except OSError as error:
        raise InputError(f"{target}: {error.strerror}") from None
    return str(target)
