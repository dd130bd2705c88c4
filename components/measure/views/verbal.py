"""The view of stated confidence: numbers, and the reliability diagram.

Shapes: P prompts, N responses that state a confidence in [0, 1].
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from components.measure.calibration import calibrate
from components.measure.confidence import ConfidenceSettings, Stated
from components.measure.formulas.ranking import (
    Statistic,
    auroc,
    calibration_error,
    equal_mass,
    equal_width,
    weighted_mean,
)
from components.measure.harness.views import Chart, Line, View, ViewTable
from components.measure.intervals import Bootstrap, Floats, Interval
from components.measure.metrics import metric_key
from components.measure.outcomes import ItemOutcomes

TEXT = (
    "On the diagonal a stated confidence of 70 % is right seven times in ten; below it the model claims more than it "
    "delivers. Points are bins, their whiskers 95 % Wilson intervals."
)


@dataclass(frozen=True)
class Stating:
    """What the judged responses of a domain state."""

    confidence: Floats
    """[N]"""
    right: Floats
    """[N] 1 or 0."""
    owner: np.ndarray
    """[N] place of the prompt."""
    num_prompts: int
    num_unstated: int
    num_outside: int
    abstained: Floats
    """[P] judged responses that abstain."""
    answered_right: Floats
    """[P]"""
    judged: Floats
    """[P]"""


def confidence_view(
    outcomes: Mapping[str, Sequence[ItemOutcomes]],
    bootstrap: Bootstrap,
    settings: ConfidenceSettings,
    *,
    bins: int,
    abstentions: Sequence[str],
) -> View:
    """Return the view of all domains; a statistic that is undefined on one is left out there."""
    metrics: dict[str, Interval | float] = {}
    rows: list[list[str | float | Interval | None]] = []
    lines = []
    for domain, found in outcomes.items():
        stating = read_stating(found, settings, abstentions)
        numbers = _numbers(stating, bootstrap, bins)
        metrics |= {metric_key(name, domain): value for name, value in numbers.items()}
        shown = ("verbal_ece", "verbal_ece_adaptive", "verbal_auroc", "verbal_brier", "verbal_mean")
        more = ("verbal_unstated", "verbal_outside", "abstained", "answered_right", "wrong_answered")
        rows.append([domain, *(numbers.get(name) for name in (*shown, *more))])
        if len(stating.confidence):
            lines.append(_reliability(domain, stating, bins))
    head = ["domain", "ECE", "adaptive ECE", "AUROC", "Brier", "mean confidence"]
    head += ["unstated", "outside [0, 1]", "abstained", "right when answered", "wrong answers"]
    chart = Chart("reliability", lines, "stated confidence", "right, %", diagonal="calibrated")
    return View(TEXT, metrics, [ViewTable("stated confidence", head, rows)], [chart] if lines else [])


def read_stating(outcomes: Sequence[ItemOutcomes], settings: ConfidenceSettings, abstentions: Sequence[str]) -> Stating:
    """Return what judged responses state."""
    refusals = {text.casefold() for text in abstentions}
    rows: list[tuple[float, bool, int]] = []
    counts = dict.fromkeys(Stated, 0)
    sums = np.zeros((len(outcomes), 3))
    for place, outcome in enumerate(outcomes):
        for index in outcome.verified():
            stated = settings.read(outcome.responses[index])
            counts[stated.stated] += 1
            right = outcome.verdicts[index].right
            abstains = (outcome.answers[index] or "").casefold().rstrip(".") in refusals
            sums[place] += (abstains, right and not abstains, 1.0)
            if stated.value is not None:
                rows.append((stated.value, right, place))
    columns = np.array(rows, dtype=np.float64).reshape(len(rows), 3)
    owner = columns[:, 2].astype(np.int64)
    missing = counts[Stated.MISSING], counts[Stated.OUTSIDE]
    return Stating(columns[:, 0], columns[:, 1], owner, len(outcomes), *missing, *np.moveaxis(sums, 1, 0))


def _numbers(stating: Stating, bootstrap: Bootstrap, num_bins: int) -> dict[str, Interval | float]:
    confidence, right = stating.confidence, stating.right
    found: dict[str, Interval] = {}
    if len(confidence):
        statistics: dict[str, Statistic] = {
            "verbal_ece": calibration_error(confidence, right, equal_width(confidence, num_bins), num_bins),
            "verbal_ece_adaptive": calibration_error(confidence, right, equal_mass(confidence, num_bins), num_bins),
            "verbal_auroc": auroc(confidence, right),
            "verbal_brier": weighted_mean((confidence - right) ** 2),
            "verbal_mean": weighted_mean(confidence),
        }
        for name, statistic in statistics.items():
            found[name] = bootstrap.statistic(
                lambda prompts, statistic=statistic: _stated_only(statistic, prompts[:, stating.owner]),
                stating.num_prompts,
                cells=len(confidence),
            )
    answered = stating.judged - stating.abstained
    found |= {
        "abstained": _ratio(stating.abstained, stating.judged, bootstrap),
        "answered_right": _ratio(stating.answered_right, answered, bootstrap),
        "wrong_answered": _ratio(answered - stating.answered_right, stating.judged, bootstrap),
    }
    counts = {"verbal_unstated": float(stating.num_unstated), "verbal_outside": float(stating.num_outside)}
    return {name: value for name, value in found.items() if math.isfinite(value.value)} | counts


def _stated_only(statistic: Statistic, weights: Floats) -> Floats:
    """Return the statistic of weightings [B, N]; NaN for a resample without any prompt that states something."""
    drawn = weights.sum(axis=1) > 0
    found = np.full(len(weights), np.nan)
    if drawn.any():
        found[drawn] = statistic(weights[drawn])
    return found


def _ratio(part: Floats, whole: Floats, bootstrap: Bootstrap) -> Interval:
    def statistic(prompts: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.einsum("bp,p->b", prompts, part) / np.einsum("bp,p->b", prompts, whole)

    return bootstrap.statistic(statistic, len(part))


def _reliability(domain: str, stating: Stating, num_bins: int) -> Line:
    bins = [
        one
        for one in calibrate(stating.confidence.tolist(), stating.right.astype(bool).tolist(), num_bins=num_bins).bins
        if one.count
    ]
    points = [(one.confidence, one.accuracy) for one in bins]
    return Line(domain, points, [wilson(one.accuracy, one.count) for one in bins], marks=True)


def wilson(share: float, count: int, z: float = 1.959963984540054) -> tuple[float, float]:
    """Return the interval of a share of `count` trials (Wilson 1927), by default of 95 %."""
    centre = (share + z * z / (2 * count)) / (1 + z * z / count)
    reach = z / (1 + z * z / count) * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count))
    return max(0.0, centre - reach), min(1.0, centre + reach)
