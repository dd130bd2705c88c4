"""The view of a judge that is to be a reward: how often its verdict is the verifier's."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from components.judges.config import PointwiseConfig
from components.judges.judge import Model, PointwiseJudge
from components.measure.harness.views import View, ViewTable
from components.measure.intervals import Bootstrap, Interval
from components.measure.metrics import metric_key
from components.measure.outcomes import ItemOutcomes
from components.measure.views.judges import mean_of, share_of, told_of

TEXT = "How often the judge's verdict is the verifier's. A judgement that cannot be read is not right."
ORDER = ("judge_pass_at_1", "judge_right_of_right", "judge_right_of_wrong", "judge_unparsed")


def bench_view(
    outcomes: Mapping[str, Sequence[ItemOutcomes]],
    model: Model,
    config: PointwiseConfig,
    bootstrap: Bootstrap,
    *,
    right_above: float,
    seed: int,
) -> View:
    """Return the judge's accuracy on right and on wrong responses, by domain; intervals are over prompts."""
    metrics: dict[str, Interval | float] = {}
    shown: list[list[str | Interval | float | None]] = []
    for domain, found in outcomes.items():
        judge = PointwiseJudge(model, config, seed=seed)
        numbers = _numbers(judge, found, right_above, bootstrap)
        metrics |= {metric_key(name, domain): number for name, number in numbers.items()}
        shown.append([domain, *(numbers.get(name) for name in ORDER)])
    head = ["domain", "pass@1", "right marked right", "wrong marked wrong", "unparsed"]
    return View(TEXT, metrics, [ViewTable("verdicts of the judge", head, shown, percent=True)])


def _numbers(
    judge: PointwiseJudge, outcomes: Sequence[ItemOutcomes], right_above: float, bootstrap: Bootstrap
) -> dict[str, Interval | float]:
    told = told_of(judge, outcomes, right_above)
    hits = {
        worth: [share_of([marked is worth for is_right, marked in few if is_right is worth]) for few in told]
        for worth in (True, False)
    }
    means = {
        "judge_right_of_right": mean_of(hits[True], bootstrap),
        "judge_right_of_wrong": mean_of(hits[False], bootstrap),
        "judge_unparsed": mean_of([share_of([marked is None for _, marked in few]) for few in told], bootstrap),
    }
    numbers: dict[str, Interval | float] = {name: mean for name, mean in means.items() if mean is not None}
    known = [
        share.value for share in (means["judge_right_of_right"], means["judge_right_of_wrong"]) if share is not None
    ]
    if known:
        numbers["judge_pass_at_1"] = math.fsum(known) / len(known)
    return numbers
