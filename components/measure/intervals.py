"""Intervals: percentile bootstrap over prompts, and Student's t over seeds.

Shapes: P prompts, K statistics of the same prompts, B bootstrap resamples.

An evaluation draws prompts from its population, so prompts are resampled; samples of one prompt
stay together (Efron and Tibshirani 1993, ch. 13). NaN marks a statistic that a prompt does not have (pass@8
of a prompt with 5 verified samples): it is left out of that statistic's mean and of its `n`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from components.contract.errors import InputError

Floats = NDArray[np.float64]

MAX_RESAMPLED_CELLS = 1 << 22
"""Most entries of one block of resampling counts, so that memory does not grow with the number of prompts."""


@dataclass(frozen=True)
class Interval:
    """A value with its confidence interval and the number of units (prompts, seeds) behind it."""

    value: float
    low: float
    high: float
    n: int

    def to_json(self) -> dict[str, float | int]:
        """Return the entry of metrics.json; ends that are unknown or infinite are left out.

        Raises InputError when there was nothing to measure.
        """
        if not math.isfinite(self.value):
            raise InputError("there is no value to record: no prompt has a verified sample")
        ends = {name: end for name, end in (("low", self.low), ("high", self.high)) if math.isfinite(end)}
        return {"value": self.value, **ends, "n": self.n}

    def excludes_zero(self) -> bool:
        """Return whether 0 lies outside the interval."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Bootstrap:
    """How intervals are made: resamples, confidence and seed; equal settings give equal intervals."""

    resamples: int = 2000
    confidence: float = 0.95
    seed: int = 0

    def means(self, values: Floats, *, stream: int = 0) -> Floats:
        """Return [B, K] means of `values` [P, K] over prompts drawn with replacement.

        NaN entries are left out; a resample that drew none but NaN gives NaN. `stream` separates independent strata.
        """
        num_prompts = len(values)
        generator = np.random.default_rng((self.seed, stream))
        present = ~np.isnan(values)
        filled, weights = np.where(present, values, 0.0), present.astype(np.float64)
        block = max(1, MAX_RESAMPLED_CELLS // max(1, num_prompts))
        parts = []
        for start in range(0, self.resamples, block):
            counts = _resampling_counts(generator, min(block, self.resamples - start), num_prompts)
            with np.errstate(invalid="ignore"):
                # not by a matrix product, whose last bits depend on how many rows it is given
                parts.append(np.einsum("bp,pk->bk", counts, filled) / np.einsum("bp,pk->bk", counts, weights))
        return np.concatenate(parts)

    def interval(self, value: float, replicates: Floats, n: int) -> Interval:
        """Return the percentile interval of `value` from its bootstrap replicates [B]."""
        drawn = replicates[~np.isnan(replicates)]
        if not len(drawn):
            return Interval(value, math.nan, math.nan, n)
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(drawn, [tail, 1 - tail])
        return Interval(value, float(low), float(high), n)

    def mean_intervals(self, values: Floats, *, stream: int = 0) -> list[Interval]:
        """Return the interval of the mean of every column of `values` [P, K]; one set of resamples serves all."""
        if not len(values):
            return [Interval(math.nan, math.nan, math.nan, 0)] * values.shape[1]
        replicates = self.means(values, stream=stream)
        counts = (~np.isnan(values)).sum(axis=0)
        return [self.interval(nan_mean(values[:, k]), replicates[:, k], int(counts[k])) for k in range(values.shape[1])]

    def mean_interval(self, values: Sequence[float] | Floats, *, stream: int = 0) -> Interval:
        """Return the interval of the mean of `values` [P]."""
        return self.mean_intervals(np.asarray(values, dtype=np.float64)[:, None], stream=stream)[0]

    def weighted_interval(self, strata: Sequence[Floats], weights: Sequence[float]) -> Interval:
        """Return the interval of the weighted mean of strata means; each stratum [P_d] is resampled separately.

        Weights are normalised to sum 1. With equal weights every domain counts the same, whatever its size. Strata
        without any value make the result NaN.
        """
        shares = np.asarray(weights, dtype=np.float64) / sum(weights)
        columns = [np.asarray(values, dtype=np.float64)[:, None] for values in strata]
        value = sum(float(share) * nan_mean(column) for share, column in zip(shares, columns, strict=True))
        count = sum(int((~np.isnan(column)).sum()) for column in columns)
        if math.isnan(value):
            return Interval(math.nan, math.nan, math.nan, count)
        drawn = [self.means(column, stream=index)[:, 0] for index, column in enumerate(columns)]
        replicates = sum(share * means for share, means in zip(shares, drawn, strict=True))
        return self.interval(value, np.asarray(replicates), count)

    def statistic(
        self, function: Callable[[Floats], Floats], num_prompts: int, *, cells: int | None = None, stream: int = 0
    ) -> Interval:
        """Return the interval of a statistic of all prompts together, such as a calibration error.

        `function` takes how often each prompt counts, [B, P], and returns [B], NaN where it is undefined. `cells` are
        the numbers that it holds for each resample, by default P, which bound the size of a block.
        """
        value = float(function(np.ones((1, num_prompts)))[0])
        if math.isnan(value):
            return Interval(value, math.nan, math.nan, num_prompts)
        generator = np.random.default_rng((self.seed, stream))
        block = max(1, MAX_RESAMPLED_CELLS // max(1, num_prompts, cells or 0))
        parts = [
            function(_resampling_counts(generator, min(block, self.resamples - start), num_prompts))
            for start in range(0, self.resamples, block)
        ]
        return self.interval(value, np.concatenate(parts), num_prompts)


def nan_mean(values: Floats) -> float:
    """Return the mean of what is not NaN, or NaN when nothing is."""
    present = values[~np.isnan(values)]
    return float(present.mean()) if present.size else math.nan


def seed_interval(values: Sequence[float], *, confidence: float = 0.95) -> Interval:
    """Return Student's t interval of the mean over independent runs (seeds).

    One run gives no interval: low and high are then the value's own infinities, never a false certainty.
    """
    if not values:
        raise InputError("no values: an interval over seeds needs at least one run")
    sample = np.asarray(values, dtype=np.float64)
    count, mean = len(sample), float(sample.mean())
    if count == 1:
        return Interval(mean, -math.inf, math.inf, 1)
    from scipy.special import stdtrit

    reach = float(stdtrit(count - 1, (1 + confidence) / 2) * sample.std(ddof=1) / math.sqrt(count))
    return Interval(mean, mean - reach, mean + reach, count)


def _resampling_counts(generator: np.random.Generator, rows: int, size: int) -> Floats:
    """Return [rows, size]: how often each unit was drawn in each resample of `size` draws with replacement."""
    drawn = generator.integers(0, size, (rows, size))
    offsets = np.arange(rows)[:, None] * size
    return np.bincount((drawn + offsets).ravel(), minlength=rows * size).reshape(rows, size).astype(np.float64)
