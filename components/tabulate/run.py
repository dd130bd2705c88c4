"""The tabulate stage: group the inputs into arms, compare them, and write table, page and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from components.contract.context import StageContext
from components.measure.fitted_mixture import write_mixture
from components.measure.intervals import Bootstrap, Interval
from components.measure.metrics import safe_name, write_json, write_metrics
from components.tabulate.arms import read_arms
from components.tabulate.equal_tokens import compare_at_equal_tokens
from components.tabulate.mixture import FittedMixture, fit_mixture
from components.tabulate.page import render_page
from components.tabulate.table import domains_of, grids_of, named, rows_of

if TYPE_CHECKING:
    from components.tabulate.params import TabulateParams

TABLE = "table.json"


def run(context: StageContext[TabulateParams]) -> None:
    """Write outputs `metrics` and `report`."""
    params = context.params
    bootstrap = Bootstrap(params.bootstrap_samples, params.confidence, context.seed)
    arms = read_arms(context.inputs("metrics"), params.cells, params.repeats)
    baseline = named(arms, params.baseline)
    table: dict[str, Any] = {
        "domains": domains_of(arms),
        "baseline": params.baseline,
        "confidence": params.confidence,
        "rows": rows_of(arms, baseline, bootstrap),
        "grids": grids_of(arms, params.grid, bootstrap) if params.grid else [],
        "equal_tokens": None,
        "mixture": None,
    }
    if trainings := context.inputs("training"):
        table["equal_tokens"] = compare_at_equal_tokens(
            trainings,
            params.training_cells,
            params.curve,
            repeats=params.repeats,
            baseline=params.baseline,
            confidence=params.confidence,
        )
    fitted = fit_mixture(arms, params.fit) if params.fit else None
    if fitted:
        table["mixture"] = {"shares": fitted.shares, **fitted.facts}
        write_mixture(context.output("metrics"), fitted.shares, fitted.facts)
    write_json(context.output("report") / TABLE, table)
    (context.output("report") / "index.html").write_text(render_page(table), encoding="utf-8")
    metrics = _metrics(table, fitted)
    write_metrics(context.output("metrics"), metrics)
    context.headline(**{name: one.value if isinstance(one, Interval) else one for name, one in metrics.items()})
    context.progress(len(arms), len(arms))


def _metrics(table: Mapping[str, Any], fitted: FittedMixture | None) -> dict[str, Interval | float]:
    metrics: dict[str, Interval | float] = {"num_arms": float(len(table["rows"]))}
    for row in table["rows"]:
        for name, found in (("value", row["values"]), ("difference", row["differences"])):
            metrics |= {
                f"{name}_{safe_name(row['arm'])}_{safe_name(domain)}": _interval(entry)
                for domain, entry in found.items()
            }
    if table["equal_tokens"]:
        metrics["equal_tokens"] = float(table["equal_tokens"]["tokens"])
    if fitted:
        metrics |= {f"share_{safe_name(domain)}": share for domain, share in fitted.shares.items()}
        metrics |= {name: fitted.facts[name] for name in ("predicted", "predicted_uniform", "best_measured")}
        skill = fitted.facts["rank_correlation"]
        metrics |= {f"rank_correlation_{name}": found for name, found in skill.items() if found is not None}
    return metrics


def _interval(entry: Mapping[str, Any]) -> Interval:
    infinite = float("inf")
    return Interval(entry["value"], entry.get("low", -infinite), entry.get("high", infinite), entry["n"])
