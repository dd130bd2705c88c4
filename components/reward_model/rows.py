"""Rows of judged responses as texts with the places at which they are scored, and what is held out of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from components.contract.errors import InputError
from components.modeling.models.policy import Policy
from components.modeling.scorers.network import Reading
from components.modeling.scorers.reading import forged, read_responses, read_steps
from components.modeling.text.overlong import Limit, Overlong, Teller, sort_overlong
from components.reward_model.config import ScorerLossConfig
from components.tasks.row_kinds.labelled import Labelled, labelled_of
from components.tasks.row_kinds.preferences import Preference, preference_of
from components.tasks.row_kinds.reading import Judged, Kind, kind_of, read_judged, task_text
from components.tasks.row_kinds.stepwise import Stepwise, stepwise_of
from components.tasks.weights import shares_of_largest

READERS: Mapping[Kind, Callable[[Mapping[str, Any]], Judged]] = {
    "preferences": preference_of,
    "labelled": labelled_of,
    "stepwise": stepwise_of,
}


@dataclass(frozen=True, slots=True)
class Unit:
    """One row to train on or to measure."""

    readings: tuple[Reading, ...]
    """Its texts: of a pair chosen and rejected, else one."""
    targets: tuple[float, ...]
    """The margin of a pair, the label of a response, or those of its steps."""
    task: str
    """What was asked, as text: rows of one task are measured together."""
    domain: str
    weight: float
    number: int
    """Of the row in its data, from 0."""
    where: str = field(default="", compare=False)
    """File and line of the row."""

    @property
    def longest(self) -> int:
        """Return the tokens of its longest text."""
        return max(len(reading.tokens) for reading in self.readings)

    @property
    def num_tokens(self) -> int:
        """Return the tokens of its texts together."""
        return sum(len(reading.tokens) for reading in self.readings)

    @property
    def num_places(self) -> int:
        """Return at how many tokens the head is read."""
        return sum(len(reading.places) for reading in self.readings)


def read_units(policy: Policy, folders: Sequence[Path], config: ScorerLossConfig) -> list[Unit]:
    """Return the rows of all folders, encoded; raise InputError for rows of another kind, with file and line."""
    rows = [row for folder in folders for row in read_judged(folder, partial(_honest, policy=policy, config=config))]
    texts = _readings(policy, rows, config)
    return [
        Unit(found, _targets(row, config), task_text(row.task), row.domain, row.weight, number, row.where)
        for number, (row, found) in enumerate(zip(rows, texts, strict=True))
    ]


def differing(units: Sequence[Unit], teller: Teller) -> tuple[list[Unit], int]:
    """Return rows without pairs whose sides are the same tokens, which prefer nothing, and how many those are."""
    equal = [unit for unit in units if len(unit.readings) > 1 and unit.readings[0].tokens == unit.readings[1].tokens]
    if not equal:
        return list(units), 0
    says = f"{equal[0].where}: chosen and rejected are the same tokens: such a pair prefers nothing"
    if len(equal) == len(units):
        raise InputError(f"{says}, and no other is left of {len(units)}")
    teller.tell(f"{says}; {len(equal)} of {len(units)} rows are left out for that")
    left_out = {unit.number for unit in equal}
    return [unit for unit in units if unit.number not in left_out], len(equal)


def fitting_units(
    units: Sequence[Unit], limit: Limit, overlong: Overlong, teller: Teller, what: str
) -> tuple[list[Unit], dict[str, float]]:
    """Return the rows within a limit, cut ones included, and the counts of the others.

    All texts of a row that is cut lose as many tokens of their prompt, so that they still share it.
    """
    sort = sort_overlong(
        [unit.longest for unit in units],
        limit,
        overlong,
        teller,
        names=lambda index: units[index].where,
        what=what,
        cuttable=lambda index: min(_starts(units[index])) > units[index].longest - limit.tokens,
    )
    fitting = [_cut(units[index], limit.tokens) if index in sort.cut else units[index] for index in sort.kept]
    return fitting, sort.metrics()


def _starts(unit: Unit) -> list[int]:
    return [reading.start for reading in unit.readings]


def _cut(unit: Unit, room: int) -> Unit:
    over = unit.longest - room
    readings = tuple(
        Reading(reading.tokens[over:], [place - over for place in reading.places], reading.start - over)
        for reading in unit.readings
    )
    return replace(unit, readings=readings)


def weighing(units: Sequence[Unit]) -> list[Unit]:
    """Return the rows that have a weight, as a share of the largest: weights of any size train alike."""
    shares = shares_of_largest([unit.weight for unit in units])
    return [replace(unit, weight=share) for unit, share in zip(units, shares, strict=True) if share]


def split_tasks(units: Sequence[Unit], share: float, seed: int) -> tuple[list[Unit], list[Unit]]:
    """Return rows to train on and rows held out: all rows of a `share` of the tasks, at least one, never all."""
    tasks = sorted({unit.task for unit in units})
    count = min(max(1, round(share * len(tasks))), len(tasks) - 1) if share else 0
    chosen = set(random.Random(f"{seed}/holdout").sample(tasks, max(0, count)))
    held = [unit for unit in units if unit.task in chosen]
    return [unit for unit in units if unit.task not in chosen], held


def _honest(row: Mapping[str, Any], policy: Policy, config: ScorerLossConfig) -> Judged:
    """Return a row of the loss's kind; raise InputError where a text names a mark of the template."""
    found = _checked(row, config)
    mark = forged(policy, found.task, _texts(found))
    if mark is not None:
        raise InputError(
            f"a text contains {mark!r}, which ends a turn or begins another: what follows it would not be read as the "
            "response; remove the mark or the row"
        )
    return found


def _checked(row: Mapping[str, Any], config: ScorerLossConfig) -> Judged:
    """Return a row of the loss's kind; of a row of another kind the error says what reads it."""
    kind = kind_of(row)
    if kind is not None and kind != config.rows:
        losses = {"preferences": "bradley_terry", "labelled": "pointwise", "stepwise": "stepwise"}
        raise InputError(
            f"a row of {kind}, and this scorer_loss reads {config.rows}; scorer_loss {losses[kind]} reads it"
        )
    found = READERS[config.rows](row)
    if isinstance(found, Preference) and not found.ended:
        raise InputError("a pair with `ended: false` has no end to be scored at; scorer_loss stepwise scores steps")
    if isinstance(found, Labelled):
        config.target(found.label, found.score)  # said here, with file and line
    return found


def _readings(policy: Policy, rows: Sequence[Judged], config: ScorerLossConfig) -> list[tuple[Reading, ...]]:
    if config.rows == "stepwise":
        steps = [(row.task, row.completions) for row in rows if isinstance(row, Stepwise)]
        separator = config.layout().separator
        return [(found,) for found in read_steps(policy, steps, separator)]
    sides = [(row.task, text) for row in rows for text in _texts(row)]
    found = read_responses(policy, sides, every=config.every_token)
    size = 2 if config.rows == "preferences" else 1
    return [tuple(found[at : at + size]) for at in range(0, len(found), size)]


def _texts(row: Judged) -> tuple[str, ...]:
    """Return the responses of a row, a pair's chosen one first, or its steps."""
    if isinstance(row, Preference):
        return row.prefix + row.chosen, row.prefix + row.rejected
    if isinstance(row, Labelled):
        return (row.completion,)
    assert isinstance(row, Stepwise)
    return row.completions


def _targets(row: Judged, config: ScorerLossConfig) -> tuple[float, ...]:
    if isinstance(row, Preference):
        return (row.margin or 0.0,)
    if isinstance(row, Labelled):
        return (config.target(row.label, row.score),)
    assert isinstance(row, Stepwise)
    return row.labels
