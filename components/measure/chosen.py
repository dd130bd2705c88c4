"""What the chosen operators measure: values by prompt, their means with intervals, and views.

Shapes: P prompts of a domain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from components.contract.errors import InputError
from components.contract.operators import Bound, OperatorSpec
from components.measure.harness.configs import metric_names, strategy_name
from components.measure.harness.context import Baseline, MeasureContext, Spent
from components.measure.harness.values import Column
from components.measure.harness.views import Chart, Line, View, ViewTable
from components.measure.intervals import Bootstrap, Floats, Interval
from components.measure.metrics import metric_key
from components.measure.outcomes import ItemOutcomes
from components.measure.paired import compare

Metrics = dict[str, Interval | float]
Outcomes = Mapping[str, Sequence[ItemOutcomes]]


def metric_columns(specs: Iterable[OperatorSpec], outcomes: Outcomes, context: MeasureContext) -> dict[str, Column]:
    """Return domain -> metric -> a value for each prompt; raise OperatorFailed for what a metric may not return."""
    bounds = [spec.resolve() for spec in specs]
    return {
        domain: {name: values for bound in bounds for name, values in _column(bound, found, context).items()}
        for domain, found in outcomes.items()
    }


def column_metrics(columns: Mapping[str, Column], outcomes: Outcomes, context: MeasureContext) -> Metrics:
    """Return means over prompts by domain, over domains that all have a value, and paired differences."""
    metrics: Metrics = {}
    strata: dict[str, dict[str, Floats]] = {}
    for domain, column in columns.items():
        for name, values in column.items():
            found = _floats(values)
            interval = context.bootstrap.mean_interval(found)
            if interval.n:
                metrics[metric_key(name, domain)] = interval
                strata.setdefault(name, {})[domain] = found
    for name, by_domain in strata.items():
        if len(by_domain) == len(columns):
            metrics[name] = context.bootstrap.weighted_interval(list(by_domain.values()), [1.0] * len(by_domain))
    if context.baseline is not None:
        metrics |= _differences(columns, outcomes, context.baseline, context.bootstrap)
    return metrics


def views_of(specs: Iterable[OperatorSpec], outcomes: Outcomes, context: MeasureContext) -> dict[str, View]:
    """Return title -> view of the diagnostics; raise OperatorFailed for what a diagnostic may not return."""
    views = {}
    for spec in specs:
        bound = spec.resolve()
        view = bound(outcomes, context)
        if not isinstance(view, View):
            raise bound.failed(f"returned {type(view).__name__}, expected a View")
        _refuse_undeclared(
            bound, {name for name in view.metrics if not _declared(name, bound, view.domains or list(outcomes))}
        )
        views[strategy_title(bound)] = view
    return views


def strategies_of(specs: Iterable[OperatorSpec], outcomes: Outcomes, context: MeasureContext) -> tuple[Metrics, View]:
    """Return accuracy and tokens of each strategy at each budget, and the view of accuracy over tokens."""
    metrics: Metrics = {}
    rows: list[list[str | float | Interval | None]] = []
    charts: dict[str, list[Line]] = {}
    for bound in (spec.resolve() for spec in specs):
        name = strategy_name(bound)
        for domain, found in outcomes.items():
            points, bands = [], []
            for k, spent in sorted(_spent(bound, found, context).items()):
                accuracy, tokens = (
                    context.bootstrap.mean_interval(_floats(one)) for one in (spent.accuracy, spent.tokens)
                )
                if not accuracy.n:
                    continue
                metrics[metric_key(f"{name}_at_{k}", domain)] = accuracy
                metrics[metric_key(f"{name}_tokens_at_{k}", domain)] = tokens
                rows.append([f"{name}, {domain}", str(k), accuracy, tokens])
                points.append((tokens.value, accuracy.value))
                bands.append((accuracy.low, accuracy.high))
            charts.setdefault(domain, []).append(Line(name, points, bands, marks=True))
    drawn = [Chart(domain, lines, "tokens for a prompt", "right, %") for domain, lines in charts.items()]
    table = ViewTable("accuracy beside tokens", ["strategy", "samples", "right", "tokens"], rows)
    text = "How often the strategy's answer is right, and what it draws for it."
    return metrics, View(text, metrics, [table], drawn)


def strategy_columns(specs: Iterable[OperatorSpec], outcomes: Outcomes, context: MeasureContext) -> dict[str, Column]:
    """Return domain -> NAME_at_K -> accuracy of each prompt."""
    bounds = [spec.resolve() for spec in specs]
    return {
        domain: {
            f"{strategy_name(bound)}_at_{k}": list(spent.accuracy)
            for bound in bounds
            for k, spent in _spent(bound, found, context).items()
        }
        for domain, found in outcomes.items()
    }


def agreed(given: Mapping[str, Interval | float], known: Mapping[str, Interval | float]) -> Metrics:
    """Return what operators measured; a number that the stage has, too, as the stage has it.

    Raises InputError where the two differ by more than rounding: then they are two numbers of one name.
    """
    for name in sorted(given.keys() & known.keys()):
        ours, theirs = _numbers(given[name]), _numbers(known[name])
        if not np.allclose(ours, theirs, rtol=1e-9, atol=1e-12, equal_nan=True):
            raise InputError(f"an operator gives {name!r}, which is a metric of the stage itself: call it otherwise")
    return {name: known.get(name, value) for name, value in given.items()}


def _numbers(metric: Interval | float) -> tuple[float, ...]:
    return (metric.value, metric.low, metric.high, metric.n) if isinstance(metric, Interval) else (metric,) * 4


def strategy_title(bound: Bound) -> str:
    """Return how a view is called on pages."""
    return bound.name.replace("_", " ") if bound.file is None else bound.file.name.function.replace("_", " ")


def _column(bound: Bound, outcomes: Sequence[ItemOutcomes], context: MeasureContext) -> Column:
    returned = bound(outcomes, context)
    if not isinstance(returned, Mapping):
        raise bound.failed(f"returned {type(returned).__name__}, expected name -> a value for each prompt")
    _refuse_undeclared(bound, set(returned) - metric_names(bound).keys())
    return {name: _checked(bound, name, values, len(outcomes)) for name, values in returned.items()}


def _refuse_undeclared(bound: Bound, names: set[str]) -> None:
    if names:
        raise bound.failed(f"returned {sorted(names)[0]!r}, which its config does not declare in `gives`")


def _declared(name: str, bound: Bound, domains: Sequence[str]) -> bool:
    return any(
        name == known or name == metric_key(known, domain) for known in metric_names(bound) for domain in domains
    )


def _checked(bound: Bound, name: str, values: Any, count: int) -> list[float | None]:
    found = list(values)
    if len(found) != count:
        raise bound.failed(f"returned {len(found)} values of {name!r} for {count} prompts")
    for place, value in enumerate(found):
        if value is not None and not (isinstance(value, int | float) and math.isfinite(value)):
            raise bound.failed(
                f"returned {value!r:.40} as {name!r} of prompt {place}, expected a finite number or None"
            )
    return [None if value is None else float(value) for value in found]


def _spent(bound: Bound, outcomes: Sequence[ItemOutcomes], context: MeasureContext) -> Mapping[int, Spent]:
    returned = bound(outcomes, context)
    if not isinstance(returned, Mapping) or not all(isinstance(one, Spent) for one in returned.values()):
        raise bound.failed("returned something else than budget -> Spent")
    for k, spent in returned.items():
        _checked(bound, f"accuracy at {k}", spent.accuracy, len(outcomes))
        _checked(bound, f"tokens at {k}", spent.tokens, len(outcomes))
    return returned


def _differences(
    columns: Mapping[str, Column], outcomes: Outcomes, baseline: Baseline, bootstrap: Bootstrap
) -> Metrics:
    """Return ours minus the baseline's of every metric that both measured, paired by prompt."""
    metrics: Metrics = {}
    for domain, column in columns.items():
        for name, values in column.items():
            known = baseline.values.get(name, {})
            theirs = _floats([known.get(outcome.item.id) for outcome in outcomes[domain]])
            ours = _floats(values)
            if (~np.isnan(ours) & ~np.isnan(theirs)).any():
                metrics[metric_key(f"delta_{name}", domain)] = compare(ours, theirs, bootstrap).difference
    return metrics


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([math.nan if value is None else value for value in values], dtype=np.float64)
