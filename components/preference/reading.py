"""From datasets to what a loss compares: pairs, labelled responses, or lists of responses to one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from components.contract.errors import InputError
from components.measure.metrics import check_domains
from components.preference.loss_config import Compares, PreferenceLossConfig
from components.tasks.row_kinds.labelled import Labelled, labelled_of, unpaired
from components.tasks.row_kinds.preferences import Preference, preference_of
from components.tasks.row_kinds.reading import Judged, Task, judged_rows, kind_of, shown
from components.tasks.source import BadRow
from components.tasks.weights import shares_of_largest

NEEDS: Mapping[Compares, str] = {
    "pairs": "rows with prompt, chosen and rejected",
    "labels": "rows with prompt, completion and label, or pairs",
    "lists": "rows with prompt, completion and score, several to a prompt, or pairs",
}

UNNAMED = "unnamed"
"""What metrics call the domain of rows without one."""


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """Responses to one task, with how good each is; in a pair, the chosen one first."""

    task: Task
    responses: tuple[str, ...]
    scores: tuple[float, ...]
    """1 and 0 of a pair; of a label, 1 if desirable, else 0; of a list the ranks, from 0 for the worst."""
    margin: float = 0.0
    domain: str = ""
    weight: float = 1.0
    prefix: str = ""
    """What every response says first: context."""
    ended: bool = True
    """Whether the responses end, or are steps that others follow."""
    where: str = field(default="", compare=False)
    """File and line of its row, or of the first of a list."""


@dataclass(frozen=True)
class Read:
    """What the rows of datasets hold."""

    examples: list[Candidates]
    num_bad: int
    """Rows that were left out."""
    num_unranked: int
    """Lists without two responses of different scores, which rank nothing."""
    num_weightless: int
    """Examples of weight 0."""


def read_candidates(
    folders: Sequence[Path],
    name: str,
    config: PreferenceLossConfig,
    bad_rows: Literal["refuse", "drop"],
    check: Callable[[Task, Sequence[str]], None] = lambda task, texts: None,
) -> Read:
    """Return what the loss `name` compares; weights are shares of the largest.

    `check` raises InputError for a task and responses that a model cannot read.

    Raises InputError, with file and line, for a bad row that is not to be dropped, where nothing is left, and where
    the metrics of two domains would have one name.
    """
    rows: list[Judged] = []
    num_bad = 0
    read = _reader(name, config, check)
    for folder in folders:
        for row in judged_rows(folder, read):
            if not isinstance(row, BadRow):
                rows.append(row)
            elif bad_rows == "refuse":
                raise InputError(f"{row.where}: {row.problem}")
            else:
                num_bad += 1
    found = list(_candidates(rows, config.compares))
    ranked = [one for one in found if config.compares != "lists" or len(set(one.scores)) > 1]
    shares = shares_of_largest([one.weight for one in ranked])
    weighing = [replace(one, weight=share) for one, share in zip(ranked, shares, strict=True) if share]
    if folders and not weighing:
        left = f"{num_bad} bad rows, {len(found) - len(ranked)} lists that rank nothing, {len(ranked)} of weight 0"
        raise InputError(
            f"there is nothing to compare: {left}; preference_loss {name!r} takes {NEEDS[config.compares]}"
        )
    _check_names({one.domain for one in weighing})
    return Read(weighing, num_bad, len(found) - len(ranked), len(ranked) - len(weighing))


def _check_names(domains: Set[str]) -> None:
    """Raise InputError where the metrics of two domains would have one name."""
    if {"", UNNAMED} <= domains:
        raise InputError(f"some rows have no domain, and {UNNAMED!r}, as metrics call it, is that of others: rename it")
    check_domains(sorted(domains))


def _reader(
    name: str, config: PreferenceLossConfig, check: Callable[[Task, Sequence[str]], None]
) -> Callable[[Mapping[str, Any]], Judged]:
    """Return a reader of rows, which refuses a response that an earlier row of its list scores otherwise."""
    scores: dict[tuple[Task, str, str], float | None] = {}

    def read(row: Mapping[str, Any]) -> Judged:
        found = _row(row, name, config)
        check(found.task, _texts(found))
        if isinstance(found, Labelled) and config.compares == "lists":
            known = scores.setdefault((found.task, found.domain, found.completion), found.score)
            if known != found.score:
                raise InputError(
                    f"score {found.score} of the response {shown(found.completion)}, which an earlier row with the "
                    f"same prompt gives {known}"
                )
        return found

    return read


def _row(row: Mapping[str, Any], name: str, config: PreferenceLossConfig) -> Preference | Labelled:
    kind = kind_of(row)
    if config.compares == "pairs" or kind == "preferences":
        pair = preference_of(row)
        if config.margins and pair.margin is None:
            raise InputError(
                f"no margin, which preference_loss {name!r} reads: a number in column margin, or score_chosen and "
                "score_rejected"
            )
        if config.compares == "labels" and (pair.prefix or not pair.ended):
            raise InputError(f"steps of a response are compared in pairs, which preference_loss {name!r} does not take")
        return pair
    found = labelled_of(row)
    wanted = "label" if config.compares == "labels" else "score"
    if getattr(found, wanted) is None:
        raise InputError(f"no {wanted}, which preference_loss {name!r} reads")
    return found


def _texts(row: Preference | Labelled) -> tuple[str, ...]:
    """Return the responses of a row as they are written, with what a pair says first."""
    if isinstance(row, Preference):
        return row.prefix + row.chosen, row.prefix + row.rejected
    return (row.completion,)


def check_classes(read: Read, name: str, config: PreferenceLossConfig) -> None:
    """Raise InputError where all labels to learn from are equal: a loss of labels tells one class from the other."""
    labels = {one.scores[0] for one in read.examples}
    if config.compares == "labels" and len(labels) == 1:
        kind = "desirable (label: true)" if labels == {1.0} else "undesirable (label: false)"
        raise InputError(
            f"all {len(read.examples)} rows are {kind}, and preference_loss {name!r} learns from the contrast of both; "
            "add rows of the other label, or train on desirable ones by sft"
        )


def _candidates(rows: Sequence[Judged], compares: Compares) -> Iterator[Candidates]:
    pairs = [row for row in rows if isinstance(row, Preference)]
    labelled = [row for row in rows if isinstance(row, Labelled)]
    if compares == "labels":
        for one in (*labelled, *unpaired(pairs)):
            yield _one(one, (one.completion,), (float(bool(one.label)),))
        return
    for pair in pairs:
        step = {"margin": pair.margin or 0.0, "prefix": pair.prefix, "ended": pair.ended}
        yield _one(pair, (pair.chosen, pair.rejected), (1.0, 0.0), **step)
    for listed in _by_task(labelled).values():
        best_first = sorted(listed, key=lambda row: -(row.score or 0.0))
        yield _one(listed[0], tuple(row.completion for row in best_first), _ranks(best_first))


def _ranks(best_first: Sequence[Labelled]) -> tuple[float, ...]:
    """Return the ranks of scores, from 0 for the lowest: two that differ in double precision alone stay apart."""
    scores = [row.score or 0.0 for row in best_first]
    rank = {score: float(number) for number, score in enumerate(sorted(set(scores)))}
    return tuple(rank[score] for score in scores)


def _by_task(rows: Sequence[Labelled]) -> dict[tuple[Task, str], list[Labelled]]:
    """Return the distinct responses to each task of each domain, in order; of equal ones the first counts."""
    found: dict[tuple[Task, str], dict[str, Labelled]] = {}
    for row in rows:
        found.setdefault((row.task, row.domain), {}).setdefault(row.completion, row)
    return {task: list(responses.values()) for task, responses in found.items()}


def _one(row: Judged, responses: tuple[str, ...], scores: tuple[float, ...], **step: Any) -> Candidates:
    shared: dict[str, Any] = {"task": row.task, "domain": row.domain, "weight": row.weight, "where": row.where}
    return Candidates(responses=responses, scores=scores, **shared, **step)
