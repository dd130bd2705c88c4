"""Views of judges: what they say of responses whose worth is known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import islice

from components.judges.config import PairwiseConfig, PointwiseConfig
from components.judges.judge import Case, Model, PointwiseJudge
from components.judges.judgement import Judgement
from components.judges.master_keys import failures, play_keys
from components.judges.reports import PairRow, pair_rows
from components.measure.harness.views import View, ViewTable
from components.measure.intervals import Bootstrap, Interval
from components.measure.metrics import metric_key
from components.measure.outcomes import ItemOutcomes
from components.tasks.row_kinds.preferences import Preference
from components.tasks.row_kinds.reading import task_text
from components.tasks.verify import Outcome

KEYS_TEXT = (
    "How often the judge marks a response without content right. Agreement stands beside it, so that a judge that "
    "marks everything wrong does not pass for a sound one."
)
PAIRS_TEXT = (
    "A right and a wrong response to one prompt, asked in both orders. Bias: 0 for a judge that does not look at the "
    "order, 0.5 for one that always takes the first."
)
PREFERENCES_TEXT = (
    "Pairs of responses of which the better one is known, asked about in both orders. Bias to length: by how much more "
    "often the judge prefers the longer response than the pairs do."
)
Number = Interval | float
Outcomes = Mapping[str, Sequence[ItemOutcomes]]


def keys_view(
    outcomes: Outcomes, model: Model, config: PointwiseConfig, bootstrap: Bootstrap, *, right_above: float, seed: int
) -> View:
    """Return the share of prompts at which each key is marked right, and agreement with the verifiers."""
    metrics: dict[str, Number] = {}
    rates: dict[str, list[Number | None]] = {}
    shown: list[list[str | Number | None]] = []
    for domain, found in outcomes.items():
        judge = PointwiseJudge(model, config, seed=seed)
        cases = [Case(outcome.item.prompt, outcome.item.answer) for outcome in found]
        keys = play_keys(judge, cases, right_above=right_above)
        means = {row.key: mean_of(row.marked, bootstrap) for row in keys}
        known = [mean for mean in means.values() if mean is not None]
        numbers: dict[str, Number] = {}
        if known:
            numbers["key_rate_worst"] = max(known, key=lambda mean: mean.value)
            numbers["key_rate_mean"] = math.fsum(mean.value for mean in known) / len(known)
        agreeing, unread = _agreement(judge, found, right_above, bootstrap)
        numbers |= agreeing | {"judge_unread": float(unread + failures(keys))}
        metrics |= {metric_key(name, domain): number for name, number in numbers.items()}
        for key, mean in means.items():
            rates.setdefault(f"{key!a}", []).append(mean)
        order = ("judge_agreement", "judge_wrong_as_right", "judge_right_as_wrong", "judge_unread")
        shown.append([domain, *(numbers.get(name) for name in order)])
    heads = ["key", *outcomes], ["domain", "agreement", "wrong marked right", "right marked wrong", "unread"]
    tables = [
        ViewTable("keys marked right", heads[0], [[key, *row] for key, row in rates.items()], percent=True),
        ViewTable("judge and verifier", heads[1], shown),
    ]
    return View(KEYS_TEXT, metrics, tables)


def pairs_view(
    outcomes: Outcomes,
    model: Model,
    config: PairwiseConfig,
    bootstrap: Bootstrap,
    *,
    pairs: int,
    repeats: int,
    seed: int,
) -> View:
    """Return how a judge of pairs agrees with the verifiers, by up to `pairs` pairs of each prompt."""
    metrics: dict[str, Number] = {}
    shown: list[list[str | Number | None]] = []
    for domain, found in outcomes.items():
        made = [_pairs(outcome, pairs) for outcome in found]
        rows = iter(pair_rows(model, config, [pair for few in made for pair in few], repeats=repeats, seed=seed))
        by_prompt = [[next(rows) for _ in few] for few in made]
        numbers = _pair_numbers(by_prompt, bootstrap)
        metrics |= {metric_key(name, domain): number for name, number in numbers.items()}
        order = ("pair_agreement", "pair_steady", "pair_first_bias", "pair_repeats", "pair_unread", "num_pairs")
        shown.append([domain, *(numbers.get(name) for name in order)])
    head = ["domain", "agreement", "same in both orders", "bias to the first", "same when repeated", "unread", "pairs"]
    return View(PAIRS_TEXT, metrics, [ViewTable("judge of pairs", head, shown)])


def preferences_view(
    pairs: Mapping[str, Sequence[Preference]],
    model: Model,
    config: PairwiseConfig,
    bootstrap: Bootstrap,
    *,
    repeats: int,
    seed: int,
) -> View:
    """Return how a judge of pairs agrees with preferences, by domain; intervals are over tasks."""
    metrics: dict[str, Number] = {}
    shown: list[list[str | Number | None]] = []
    for domain, found in pairs.items():
        by_task: dict[str, list[Preference]] = {}
        for pair in found:
            by_task.setdefault(task_text(pair.task), []).append(pair)
        asked = [
            (Case(task), pair.prefix + pair.chosen, pair.prefix + pair.rejected)
            for task, few in by_task.items()
            for pair in few
        ]
        rows = iter(pair_rows(model, config, asked, repeats=repeats, seed=seed))
        told = [[next(rows) for _ in few] for few in by_task.values()]
        numbers = {
            f"preference_{name.removeprefix('pair_')}": one for name, one in _pair_numbers(told, bootstrap).items()
        }
        numbers["num_preferences"] = numbers.pop("preference_num_pairs")
        bias = mean_of([_length_bias(*both) for both in zip(by_task.values(), told, strict=True)], bootstrap)
        numbers |= {} if bias is None else {"preference_length_bias": bias}
        metrics |= {metric_key(name, domain): number for name, number in numbers.items()}
        order = ("agreement", "steady", "first_bias", "length_bias", "repeats", "unread")
        shown.append([domain, *(numbers.get(f"preference_{name}") for name in order), numbers["num_preferences"]])
    head = ["domain", "agreement", "same in both orders", "bias to the first", "bias to length", "same when repeated"]
    return View(
        PREFERENCES_TEXT,
        metrics,
        [ViewTable("judge and preferences", [*head, "unread", "pairs"], shown)],
        domains=list(pairs),
    )


def _length_bias(pairs: Sequence[Preference], told: Sequence[PairRow]) -> float | None:
    """Return how much more often the longer response is preferred by the judge than by the pairs of one task."""
    found = []
    for pair, row in zip(pairs, told, strict=True):
        longer = len(pair.chosen) - len(pair.rejected)
        if row.agrees is not None and longer:
            found.append((row.agrees - 1) if longer > 0 else (1 - row.agrees))
    return share_of(found)


def _agreement(
    judge: PointwiseJudge, outcomes: Sequence[ItemOutcomes], right_above: float, bootstrap: Bootstrap
) -> tuple[dict[str, Number], int]:
    """Return agreement on the verified responses, a mean of prompts' means, and how many could not be read."""
    told = told_of(judge, outcomes, right_above)
    read = [[(is_right, marked) for is_right, marked in few if marked is not None] for few in told]
    parts = {
        "judge_agreement": [[marked == is_right for is_right, marked in few] for few in read],
        "judge_wrong_as_right": [[marked for is_right, marked in few if not is_right] for few in read],
        "judge_right_as_wrong": [[not marked for is_right, marked in few if is_right] for few in read],
    }
    unread = sum(map(len, told)) - sum(map(len, read))
    means = {name: mean_of([share_of(few) for few in found], bootstrap) for name, found in parts.items()}
    return {name: mean for name, mean in means.items() if mean is not None}, unread


def _pair_numbers(by_prompt: Sequence[Sequence[PairRow]], bootstrap: Bootstrap) -> dict[str, Number]:
    every = [row for few in by_prompt for row in few]
    numbers: dict[str, Number] = {
        "num_pairs": float(len(every)),
        "pair_unread": float(sum(row.agrees is None for row in every)),
    }
    names = {"agrees": "pair_agreement", "steady": "pair_steady", "first_bias": "pair_first_bias"}
    for name, called in (names | {"repeats": "pair_repeats"}).items():
        mean = mean_of([share_of([getattr(row, name) for row in few]) for few in by_prompt], bootstrap)
        if mean is not None:
            numbers[called] = mean
    return numbers


def _pairs(outcome: ItemOutcomes, most: int) -> list[tuple[Case, str, str]]:
    """Return pairs of a right and a wrong response, the right one first; none of a conversation with several turns."""
    texts: dict[Outcome, list[str]] = {Outcome.RIGHT: [], Outcome.WRONG: []}
    for row in () if outcome.turns else outcome.verified():
        texts[outcome.verdicts[row].outcome].append(outcome.responses[row])
    case = Case(outcome.item.prompt, outcome.item.answer)
    both = zip(*(dict.fromkeys(texts[kind]) for kind in (Outcome.RIGHT, Outcome.WRONG)), strict=False)
    return [(case, right, wrong) for right, wrong in islice(both, most)]


def told_of(
    judge: PointwiseJudge, outcomes: Sequence[ItemOutcomes], right_above: float
) -> list[list[tuple[bool, bool | None]]]:
    """Return by prompt, of each verified response, whether it is right and is marked right; None if that is unread."""
    asked = [(outcome, row) for outcome in outcomes for row in outcome.verified()]
    said = iter(judge.judge([(_case(outcome, row), outcome.responses[row]) for outcome, row in asked]))
    return [
        [
            (outcome.verdicts[row].outcome is Outcome.RIGHT, _marked(next(said), right_above))
            for row in outcome.verified()
        ]
        for outcome in outcomes
    ]


def _case(outcome: ItemOutcomes, row: int) -> Case:
    turns = outcome.turns[row] if outcome.turns else ()
    return Case(outcome.item.prompt_with(turns), outcome.item.answer)


def _marked(said: Judgement, right_above: float) -> bool | None:
    return None if said.value is None else said.value > right_above


def share_of(values: Sequence[float | None]) -> float | None:
    """Return the mean of the known values; None without any."""
    known = [float(value) for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def mean_of(values: Sequence[float | None], bootstrap: Bootstrap) -> Interval | None:
    """Return the mean of the known values with its interval; None without any."""
    known = [float(value) for value in values if value is not None]
    return bootstrap.mean_interval(known) if known else None
