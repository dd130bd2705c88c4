"""Calibration: does confidence match correctness? ECE, Brier score and reliability bins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from components.contract.errors import InputError


@dataclass(frozen=True)
class ReliabilityBin:
    """Predictions whose confidence lies in (low, high]; the first bin holds 0 as well."""

    low: float
    high: float
    count: int
    confidence: float
    """Mean confidence in the bin; 0 when it is empty."""
    accuracy: float
    """Share of right ones in the bin; 0 when it is empty."""


@dataclass(frozen=True)
class Calibration:
    """How far confidence is from correctness."""

    ece: float
    """Expected calibration error: mean distance of accuracy and confidence over bins (Guo et al. 2017, eq. 3)."""
    brier: float
    """Mean squared distance between confidence and outcome (Brier 1950)."""
    overconfidence: float
    """Mean confidence minus accuracy: above 0 the model claims more than it delivers."""
    count: int
    bins: tuple[ReliabilityBin, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON."""
        return asdict(self)


def calibrate(confidences: Sequence[float], right: Sequence[bool], *, num_bins: int = 10) -> Calibration:
    """Compare confidences in [0, 1] with outcomes over `num_bins` bins of equal width.

    Raises InputError for no predictions, or a confidence outside [0, 1].
    """
    confidence, outcome = np.asarray(confidences, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if not confidence.size or confidence.min() < 0 or confidence.max() > 1:
        raise InputError("calibration needs at least one confidence, all of them from 0 to 1")
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    member = np.searchsorted(edges[1:-1], confidence, side="left")
    counts = np.bincount(member, minlength=num_bins)
    filled = np.maximum(counts, 1)
    mean_confidence = np.bincount(member, weights=confidence, minlength=num_bins) / filled
    accuracy = np.bincount(member, weights=outcome, minlength=num_bins) / filled
    gaps = np.abs(accuracy - mean_confidence)
    bins = tuple(
        ReliabilityBin(
            float(edges[b]), float(edges[b + 1]), int(counts[b]), float(mean_confidence[b]), float(accuracy[b])
        )
        for b in range(num_bins)
    )
    return Calibration(
        ece=float((counts * gaps).sum() / confidence.size),
        brier=float(np.square(confidence - outcome).mean()),
        overconfidence=float(confidence.mean() - outcome.mean()),
        count=int(confidence.size),
        bins=bins,
    )


def majority_confidence(answers: Sequence[str | None], right: Sequence[bool]) -> tuple[float, bool] | None:
    """Return the share of samples behind the most frequent answer, and whether that answer is right.

    The first seen of tied answers is taken; an answer is right when most of its samples are. None when no sample
    gave an answer: there is no vote to be confident in.
    """
    votes = Counter(answer for answer in answers if answer is not None)
    if not votes:
        return None
    winner, count = votes.most_common(1)[0]
    outcomes = [is_right for answer, is_right in zip(answers, right, strict=True) if answer == winner]
    return count / len(answers), sum(outcomes) * 2 > len(outcomes)
