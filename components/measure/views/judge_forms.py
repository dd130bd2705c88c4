"""Whether a judge agrees with the verifiers, by the form in which an answer is written."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from components.judges.config import PointwiseConfig
from components.judges.judge import Case, Model, PointwiseJudge
from components.measure.harness.views import View, ViewTable
from components.measure.intervals import Bootstrap, Interval
from components.measure.metrics import metric_key
from components.measure.outcomes import ItemOutcomes
from components.measure.views.judges import mean_of, share_of
from components.tasks.domains.worlds.fractions import FORMS, form_of
from components.tasks.given_answers import given_answer
from components.tasks.verify import Outcome

TEXT = (
    "Of the model's verified answers, by form: the share that is right, and the share of which the judge says what the "
    "verifier says, a mean of prompts' means. A judge of one form alone is found here."
)
OTHER = "other"


def forms_view(
    outcomes: Mapping[str, Sequence[ItemOutcomes]],
    model: Model,
    config: PointwiseConfig,
    bootstrap: Bootstrap,
    *,
    right_above: float,
    seed: int,
) -> View:
    """Return agreement by form for every domain; responses without a final answer are in no form."""
    metrics: dict[str, Interval | float] = {}
    shown: list[list[str | Interval | float | None]] = []
    for domain, found in outcomes.items():
        judge = PointwiseJudge(model, config, seed=seed)
        by_form = _agreement(judge, found, right_above)
        total = sum(len(few) for prompts in by_form.values() for few in prompts)
        for form, prompts in by_form.items():
            rows = [row for few in prompts for row in few]
            agreement = mean_of([share_of([agrees for _, agrees in few]) for few in prompts], bootstrap)
            share = len(rows) / total if total else math.nan
            right = math.fsum(right for right, _ in rows) / len(rows) if rows else None
            if agreement is not None:
                metrics[metric_key(f"agreement_{form}", domain)] = agreement
            if total:
                metrics[metric_key(f"share_{form}", domain)] = share
            shown.append([f"{domain}, {form}", share if total else None, right, agreement])
        metrics[metric_key("form_unread", domain)] = float(judge.counts["failed"])
    head = ["answers", "share of all", "right", "judge agrees"]
    return View(TEXT, metrics, [ViewTable("judge by form", head, shown, percent=True)])


def _agreement(
    judge: PointwiseJudge, outcomes: Sequence[ItemOutcomes], right_above: float
) -> dict[str, list[list[tuple[bool, bool | None]]]]:
    """Return form -> by prompt whether each answer is right, and whether the judge agrees; None if it is unread."""
    asked: list[tuple[int, str, Case, str, bool]] = []
    for at, outcome in enumerate(outcomes):
        case = Case(outcome.item.prompt, outcome.item.answer)
        for row in outcome.verified():
            if (answer := given_answer(outcome.responses[row])) is not None:
                asked.append((at, form_of(answer), case, answer, outcome.verdicts[row].outcome is Outcome.RIGHT))
    found: dict[str, list[list[tuple[bool, bool | None]]]] = {form: [[] for _ in outcomes] for form in (*FORMS, OTHER)}
    said = judge.judge([(case, answer) for *_, case, answer, _ in asked])
    for (at, form, _, _, is_right), one in zip(asked, said, strict=True):
        found[form][at].append((is_right, None if one.value is None else (one.value > right_above) == is_right))
    return found
