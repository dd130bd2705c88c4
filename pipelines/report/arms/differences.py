"""Differences between arms: paired on the same prompts, or by seed where there are several."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.report.collect import SEED, Stage
from pipelines.report.evaluations import Estimate, Evaluation, metrics_of

if TYPE_CHECKING:
    from components.measure.paired import Comparison

PAIRED = "pass_at_1"
"""The metric that the pass-rate ledger holds for every prompt."""


@dataclass(frozen=True)
class Difference:
    """One arm minus another in one metric."""

    estimate: Estimate
    """With an interval over prompts (one seed) or seeds (several); without one, where nothing can be paired."""
    p: float | None = None
    """Two-sided: over prompts of a sign-flip permutation test, over seeds of a t test, of the same pairs."""

    @property
    def clear(self) -> bool:
        """Return whether the interval leaves out 0."""
        low, high = self.estimate.low, self.estimate.high
        return low is not None and high is not None and (low > 0 or high < 0)


def difference(ours: Evaluation, theirs: Evaluation, metric: str) -> Difference | None:
    """Return ours minus theirs; None where they share no prompt, no seed, or one has not measured it.

    One evaluation each is paired by prompt, with a bootstrap interval; several are paired by seed, with a t interval of
    the seeds' differences.
    """
    pairs = _pairs(_measuring(ours, metric), _measuring(theirs, metric))
    if not pairs:
        return None
    if len(pairs) == 1:
        return _of_one(*pairs[0], metric)
    found = [one for pair in pairs if (one := _of_one(*pair, metric))]
    return _over_seeds([one.estimate.value for one in found]) if len(found) > 1 else None


def adjusted(differences: Sequence[Difference | None]) -> list[Difference | None]:
    """Return differences whose p-values are adjusted for all being tested at once (Holm)."""
    from components.measure.paired import holm

    known = [one.p for one in differences if one and one.p is not None]
    values = iter(holm(known))
    return [replace(one, p=next(values)) if one and one.p is not None else one for one in differences]


def _measuring(item: Evaluation, metric: str) -> list[Stage]:
    return [stage for stage in item.stages if metric in metrics_of(stage)]


def _pairs(ours: Sequence[Stage], theirs: Sequence[Stage]) -> list[tuple[Stage, Stage]]:
    """Pair stages by seed; one of each is a pair whatever its seed, since the prompts are what they share."""
    if len(ours) == len(theirs) == 1:
        return [(ours[0], theirs[0])]
    by_seed = {_seed(stage): stage for stage in theirs}
    return [(stage, by_seed[_seed(stage)]) for stage in ours if _seed(stage) in by_seed]


def _seed(stage: Stage) -> Any:
    return stage.labels.get(SEED, stage.entry["seed"] if stage.entry else None)


def _of_one(ours: Stage, theirs: Stage, metric: str) -> Difference | None:
    first, second = _by_prompt(ours, metric), _by_prompt(theirs, metric)
    if first is None or second is None:
        return Difference(Estimate(metrics_of(ours)[metric]["value"] - metrics_of(theirs)[metric]["value"]))
    found = _compared(first, second)
    if found is None:
        return None
    interval = found.difference
    return Difference(Estimate(interval.value, interval.low, interval.high, interval.n), found.p_permutation)


def _compared(ours: dict[str, float], theirs: dict[str, float]) -> Comparison | None:
    """Compare pass rates by prompt; None if no prompt was verified in both."""
    from components.contract.errors import InputError
    from components.measure.intervals import Bootstrap
    from components.measure.paired import compare

    both = [prompt for prompt in ours if prompt in theirs]
    try:
        return compare([ours[one] for one in both], [theirs[one] for one in both], Bootstrap())
    except InputError:
        return None


def _over_seeds(values: list[float]) -> Difference:
    """Return the mean of the seeds' differences; three seeds are too few for a permutation test, whose p is >= 0.25."""
    from components.measure.intervals import seed_interval

    found = seed_interval(values)
    return Difference(Estimate(found.value, found.low, found.high, found.n, "seeds"), t_test(values))


def t_test(values: Sequence[float]) -> float:
    """Return the two-sided p of "the mean is 0" by Student's t, of at least two values."""
    import numpy as np
    from scipy.special import stdtr

    sample = np.asarray(values, dtype=np.float64)
    error = sample.std(ddof=1) / math.sqrt(len(sample))
    if error == 0:
        return float(sample[0] == 0)
    return float(2 * stdtr(len(sample) - 1, -abs(sample.mean()) / error))


def _by_prompt(stage: Stage, metric: str) -> dict[str, float] | None:
    """Return a metric of each prompt; None if the stage keeps no pass rates, or the metric is not one of them."""
    from components.measure.ledger import LEDGER

    folders = (folder for folder in stage.files.values() if (folder / LEDGER).is_file())
    return next((_pass_rates(folder).get(metric) for folder in folders), None)


@lru_cache(maxsize=64)
def _pass_rates(folder: Path) -> dict[str, dict[str, float]]:
    """Return metric -> prompt -> pass rate of a content-addressed folder."""
    from components.measure.ledger import read_ledger
    from components.measure.metrics import metric_key

    found = read_ledger(folder).items()
    return {metric_key(PAIRED, domain): {row.prompt_id: row.value for row in rows.values()} for domain, rows in found}
