"""Scores of a model for selection: values per prompt of the metrics that the rule needs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from components.contract.errors import InputError, StageFailed
from components.measure.harness.values import Column
from components.measure.intervals import Floats
from components.measure.ledger import PassRateRow
from components.measure.outcomes import ItemOutcomes
from components.measure.passk import pass_at_k_values
from components.measure.summary import metric_values
from components.tasks.item import Item

Need = tuple[str, str]
"""(metric, domain)."""
Outcomes = Mapping[str, Sequence[ItemOutcomes]]
"""domain -> outcomes of its prompts."""
Columns = Mapping[str, Column]
"""domain -> metric -> a value for each prompt, from operators."""


@dataclass(frozen=True)
class Scores:
    """One model's results on the development set."""

    name: str
    values: Mapping[Need, Floats]
    """[P] values of a domain's prompts, in the same order for every model; NaN if a prompt has none."""
    entropy: float = 0.0
    """Mean token entropy, with equal weight per domain."""
    divergence: float | None = None
    """KL to the baseline in nats a response, where the rule reads it."""


def scores_of_outcomes(name: str, outcomes: Outcomes, needs: Sequence[Need], columns: Columns) -> Scores:
    """Return the scores of a sampled model; raise StageFailed if a metric has no value at all.

    `columns` are what operators measure of it: domain -> metric -> a value for each prompt.
    """
    values = {(metric, domain): _values(outcomes, columns, metric, domain) for metric, domain in needs}
    for (metric, domain), found in values.items():
        if np.isnan(found).all():
            failed = sum(outcome.num_failed for outcome in outcomes[domain])
            raise StageFailed(
                f"{name}: {metric} on {domain!r} cannot be measured: no prompt has enough verified samples "
                f"({failed} verifications failed)"
            )
    entropies = [np.mean([np.mean(outcome.entropies) for outcome in found]) for found in outcomes.values()]
    return Scores(name, values, float(np.mean(entropies)))


def _values(outcomes: Outcomes, columns: Columns, metric: str, domain: str) -> Floats:
    found = columns.get(domain, {}).get(metric)
    if found is None:
        return metric_values(outcomes[domain], metric)
    return np.array([math.nan if value is None else value for value in found], dtype=np.float64)


def scores_of_ledger(
    name: str,
    ledger: Mapping[str, Mapping[str, PassRateRow]],
    prompts: Mapping[str, Sequence[Item]],
    needs: Sequence[Need],
) -> Scores:
    """Return the scores of a model from the ledger of its evaluation; prompts missing there are NaN.

    Raises InputError for maj@k, which a ledger does not hold, and for a domain without shared prompts.
    """
    values: dict[Need, Floats] = {}
    for metric, domain in needs:
        kind, _, k = metric.partition("_at_")
        if kind != "pass":
            raise InputError(f"{name}: {metric} cannot be read from a pass-rate ledger; connect input 'baseline'")
        rows = [ledger.get(domain, {}).get(item.id) for item in prompts[domain]]
        values[metric, domain] = np.array([_pass_at_k(row, int(k)) for row in rows])
        if np.isnan(values[metric, domain]).all():
            raise InputError(f"{name}: its evaluation has no {metric} for any prompt of domain {domain!r}")
    return Scores(name, values)


def _pass_at_k(row: PassRateRow | None, k: int) -> float:
    if row is None:
        return math.nan
    return float(pass_at_k_values([row.num_right + row.num_wrong], [row.num_right], [k])[0, 0])
