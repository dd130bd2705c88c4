"""The table: each arm's pass@1 by domain, its paired difference from the baseline, and grids of two axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from components.contract.errors import InputError
from components.measure.intervals import Bootstrap, Interval, seed_interval
from components.tabulate.arms import Arm
from components.tabulate.params import Grid

MEAN = "mean over domains"


def domains_of(arms: Sequence[Arm]) -> list[str]:
    """Return all measured domains, sorted."""
    return sorted({domain for arm in arms for ledger in arm.ledgers.values() for domain in ledger})


def value(arm: Arm, domain: str, bootstrap: Bootstrap) -> Interval | None:
    """Return an arm's pass@1 on a domain: over repeats if there are several, else over prompts; None if not measured.

    A repeat's value is the mean over its prompts.
    """
    found = [values for repeat in arm.ledgers if (values := arm.values(domain, repeat))]
    if len(found) > 1:
        means = [sum(values.values()) / len(values) for values in found]
        return seed_interval(means, confidence=bootstrap.confidence)
    return bootstrap.mean_interval(list(found[0].values())) if found else None


def difference(ours: Arm, theirs: Arm, domain: str, bootstrap: Bootstrap) -> Interval | None:
    """Return ours minus theirs, paired by prompt within each repeat that both have; None where none shares a prompt.

    With several repeats the interval is Student's t over their differences, else a bootstrap over prompts. A baseline
    with one repeat only is compared with every repeat of ours.
    """
    pairs = []
    for repeat in ours.ledgers:
        other = repeat if repeat in theirs.ledgers else next(iter(theirs.ledgers)) if len(theirs.ledgers) == 1 else None
        if other is None:
            continue
        first, second = ours.values(domain, repeat), theirs.values(domain, other)
        if shared := sorted(first.keys() & second.keys()):
            pairs.append([first[prompt] - second[prompt] for prompt in shared])
    if len(pairs) > 1:
        return seed_interval([sum(found) / len(found) for found in pairs], confidence=bootstrap.confidence)
    return bootstrap.mean_interval(pairs[0]) if pairs else None


def rows_of(arms: Sequence[Arm], baseline: Arm | None, bootstrap: Bootstrap) -> list[dict[str, Any]]:
    """Return one row for each arm: its values, and its differences, by domain and for the mean over all domains."""
    domains = domains_of(arms)
    rows = []
    for arm in arms:
        values = {domain: value(arm, domain, bootstrap) for domain in domains}
        changes = {d: difference(arm, baseline, d, bootstrap) for d in domains} if baseline and baseline != arm else {}
        rows.append(
            {
                "arm": arm.name,
                "labels": arm.labels,
                "num_repeats": len(arm.ledgers),
                "is_baseline": arm is baseline,
                "values": {domain: found.to_json() for domain, found in values.items() if found},
                "differences": {domain: found.to_json() for domain, found in changes.items() if found},
                "mean": _mean(list(values.values())),
                "mean_difference": _mean(list(changes.values())),
            }
        )
    return rows


def grids_of(arms: Sequence[Arm], grid: Grid, bootstrap: Bootstrap) -> list[dict[str, Any]]:
    """Return a table for each domain: row label -> column label -> pass@1.

    Raises InputError where two arms share a cell, since a third axis tells them apart.
    """
    tables = []
    for domain in domains_of(arms):
        cells: dict[str, dict[str, Any]] = {}
        for arm in arms:
            if grid.rows not in arm.labels or grid.columns not in arm.labels:
                continue
            row, column = str(arm.labels[grid.rows]), str(arm.labels[grid.columns])
            if column in cells.setdefault(row, {}):
                both = f"{grid.rows}={row}, {grid.columns}={column}"
                raise InputError(f"grid: several arms are {both}; connect those of one label of every other axis")
            found = value(arm, domain, bootstrap)
            cells[row][column] = found.to_json() if found else None
        columns = list(dict.fromkeys(column for row in cells.values() for column in row))
        tables.append({"domain": domain, "rows": grid.rows, "columns": columns, "cells": cells})
    return tables


def named(arms: Sequence[Arm], name: str | None) -> Arm | None:
    """Return the arm of that name, None for none; raise InputError if there is no such arm."""
    if name is None:
        return None
    found = next((arm for arm in arms if arm.name == name), None)
    if found is None:
        raise InputError(f"baseline: no arm is called {name!r}; there are {', '.join(repr(arm.name) for arm in arms)}")
    return found


def _mean(found: Sequence[Interval | None]) -> float | None:
    known = [one.value for one in found if one is not None]
    return sum(known) / len(known) if known else None
