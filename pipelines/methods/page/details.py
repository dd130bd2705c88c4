"""What a method's row opens: conditions, effects by seed, every arm's values, provenance."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pipelines.methods.recorded import Record, RecordedClaim, RecordedCondition, RecordedValue, effect_text


@dataclass(frozen=True)
class Grid:
    """A table of plain texts under its title; cells from `numbers_from` on are figures."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers_from: int = 1
    note: str = ""


def grids(record: Record) -> Iterator[Grid]:
    """Yield the tables of a record."""
    for part, claim in record.claims.items():
        yield _by_seed(record, part, claim)
    if conditions := [*_conditions("precondition", record.preconditions), *_conditions("active", record.active)]:
        yield Grid(
            "Conditions", ["condition", "name", "mean of", "mean", "must be", "found"], conditions, numbers_from=9
        )
    effects = [
        [name, entry.value, entry.effect, effect_text(entry.interval), *_means(record, entry)]
        for name, entry in record.secondary.items()
    ]
    if effects:
        yield Grid(
            "Secondary effects", ["quantity", "of", "effect", "mean [95 %]", *record.arms], effects, numbers_from=3
        )
    values = [[name, entry.value, *_means(record, entry)] for name, entry in record.also.items()]
    if record.budget is not None:
        values.append(["budget", record.budget.value, *_means(record, record.budget)])
    times = [figure(record.seconds.arms[arm]) for arm in record.arms]
    values.append(["seconds of a seed", f"{figure(record.seconds.shared)} more are shared", *times])
    yield Grid("Values of every arm", ["quantity", "of", *record.arms], values, numbers_from=2)


def command(record: Record) -> str:
    """Return the command that makes the record again."""
    seeds = [] if len(record.seeds) in record.looks else ["--seeds", str(len(record.seeds))]
    settings = [part for text in record.given for part in ("--set", text)]
    return shlex.join(["posttrain", "reproduce", record.slug, *settings, *seeds, "--record"])


def provenance(record: Record) -> str:
    """Return when and with which code the record was made, in one line."""
    code = [f"{key} {value}" for key, value in record.code.items() if value not in (None, "", False)]
    cpu = "" if record.cpu_seconds is None else f", all of its work {record.cpu_seconds:,.0f} CPU s"
    minutes = f"the last run took {record.run_seconds:.0f} s{cpu}"
    again = [f"confirmed {record.confirmed.in_words}"] if record.confirmed else []
    return "; ".join([f"made {record.date}", *code, *again, f"setting {record.setting.digest[:12]}", minutes])


def figure(value: float) -> str:
    """Return a number in four significant digits, whole from 1,000 on, with its thousands apart."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _by_seed(record: Record, part: str, claim: RecordedClaim) -> Grid:
    rows = []
    for place, seed in enumerate(record.seeds):
        values = [_at(claim.arms.get(arm, []), place) for arm in record.arms]
        rows.append([str(seed), *values, f"{claim.effects[place]:+.4g}"])
    means = [figure(claim.mean_of(arm)) for arm in record.arms]
    rows.append(["mean", *means, f"{claim.interval.value:+.4g}"])
    note = f"{claim.value}; effect: {claim.effect}; floor {claim.floor:g}: {claim.floor_from}"
    return Grid(f"{part.capitalize()}: {claim.name}", ["seed", *record.arms, "effect"], rows, note=note)


def _at(values: Sequence[float], place: int) -> str:
    return figure(values[place]) if place < len(values) else "-"


def _conditions(kind: str, found: Mapping[str, RecordedCondition]) -> Iterator[list[str]]:
    for name, entry in found.items():
        ends = (("at least", entry.at_least), ("at most", entry.at_most))
        bounds = ", ".join(f"{word} {value:g}" for word, value in ends if value is not None)
        of = entry.value if entry.effect in ("baseline", "method") else f"{entry.value}, {entry.effect}"
        yield [kind, name, of, figure(entry.mean), bounds, "holds" if entry.holds else "does not hold"]


def _means(record: Record, entry: RecordedValue) -> list[str]:
    return [figure(entry.mean_of(arm)) for arm in record.arms]
