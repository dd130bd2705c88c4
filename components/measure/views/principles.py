"""The view of a judge that is a list of principles: what it says of pairs whose better response is known.

Shapes: N responses, P prompts.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from components.contract.errors import InputError
from components.measure.formulas.ranking import Statistic, auroc
from components.measure.harness.views import View, ViewTable
from components.measure.intervals import Bootstrap, Floats, Interval
from components.measure.metrics import check_domains, metric_key
from components.tasks.item import Item, item_from_row
from components.tasks.principles import RUBRIC, held
from components.tasks.row_kinds.preferences import preference_of
from components.tasks.row_kinds.reading import task_text
from components.tasks.rows import iter_rows
from components.tasks.rubric import Rubric, rubric_of

OWNER = "diagnostic principles_auc"
TEXT = (
    "A response passes if it holds to every principle. A list that passes everything has an AUC of 50 %, so read the "
    "share of bad responses that pass beside it."
)
Sides = list[tuple[Item, str, bool]]
"""Task, response and whether it is the good one, of every side of every pair."""


def principles_view(folders: Sequence[Path], bootstrap: Bootstrap) -> View:
    """Return the view of all domains of the pairs; InputError for rows without a list, or with different ones."""
    rubric, by_domain = _read(folders)
    metrics: dict[str, Interval | float] = {}
    rows: list[list[str | float | Interval | None]] = []
    for domain, sides in by_domain.items():
        numbers = _numbers(sides, rubric, bootstrap)
        metrics |= {metric_key(name, domain): value for name, value in numbers.items()}
        rows.append([domain, *(numbers.get(name) for name in ("judge_auc", "judge_passes_good", "judge_passes_bad"))])
    told = ", ".join(one.name for one in rubric.criteria)
    head = ["domain", "AUC", "good ones pass", "bad ones pass"]
    return View(TEXT, metrics, [ViewTable(f"principles: {told}", head, rows, percent=True)], domains=list(by_domain))


def _read(folders: Sequence[Path]) -> tuple[Rubric, dict[str, Sides]]:
    only: Rubric | None = None
    found: dict[str, Sides] = {}
    for folder in folders:
        for where, row in iter_rows(folder):
            item = item_from_row(row, where)
            try:
                pair, rubric = preference_of(row), rubric_of(item, RUBRIC)
            except InputError as error:
                raise InputError(f"{where}: {error}") from error
            if rubric is None:
                raise InputError(f"{where}: {OWNER}: no list of principles (data.{RUBRIC}), as judge_attacks writes it")
            if only is not None and rubric != only:
                raise InputError(f"{where}: {OWNER}: another list than that of the pairs before; measure one at a time")
            only = rubric
            found.setdefault(item.domain, []).extend([(item, pair.chosen, True), (item, pair.rejected, False)])
    if only is None:
        raise InputError(f"{OWNER}: input `pairs` holds no pair")
    check_domains(found)
    return only, found


def _numbers(sides: Sides, rubric: Rubric, bootstrap: Bootstrap) -> dict[str, Interval | float]:
    passed = np.array([all(marks) for marks in held(rubric.criteria, [side[:2] for side in sides])], dtype=float)
    good = np.array([label for *_, label in sides], dtype=float)
    names = [task_text(item.task) for item, *_ in sides]
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    prompts = np.array([places[name] for name in names])
    return {
        "judge_auc": _over(auroc(passed, good), prompts, bootstrap),
        "judge_passes_good": _over(_mean(passed, good), prompts, bootstrap),
        "judge_passes_bad": _over(_mean(passed, 1 - good), prompts, bootstrap),
        "num_principles": float(len(rubric.criteria)),
    }


def _mean(values: Floats, members: Floats) -> Statistic:
    """Return the weighted mean of values [N] over the members; every pair has one on each side."""
    return lambda weights: (weights * members) @ values / (weights @ members)


def _over(statistic: Statistic, prompts: np.ndarray, bootstrap: Bootstrap) -> Interval:
    """Return a statistic of responses [N] with an interval over their prompts."""
    return bootstrap.statistic(lambda weights: statistic(weights[:, prompts]), int(prompts.max()) + 1)
