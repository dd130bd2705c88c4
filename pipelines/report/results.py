"""Sections on what came out: skills over the stages, pass@k, forgetting and recovery, selection."""

from __future__ import annotations

from html import escape
from typing import Any

from pipelines.report.collect import HEADLINE, Estimate, Evaluation, RunData, Stage
from pipelines.report.html import Markup, figure, grid, percent, section, table
from pipelines.report.svg import Axes, Series, legend, line_chart

OTHERS = (("entropy", "entropy, nats", 3), ("mean_tokens", "tokens a response", 1), ("num_failed", "failed checks", 0))
"""Metric, title and digits of the columns beside pass@1."""


def skills(data: RunData) -> Markup:
    """Return pass@1 per domain over the evaluated models: what each stage taught, and what it cost."""
    evaluations = data.evaluations
    if not evaluations:
        return Markup("")
    names = [item.model for item in evaluations]
    series = []
    for colour, domain in enumerate(data.domains):
        found = [(index, item.estimate(HEADLINE + domain)) for index, item in enumerate(evaluations)]
        known = [(index, estimate) for index, estimate in found if estimate]
        series.append(
            Series(
                domain,
                [(index, estimate.value) for index, estimate in known],
                [_bounds(estimate) for _, estimate in known],
                colour,
                marks=True,
                scatter=_seeds(evaluations, HEADLINE + domain),
            )
        )
    axes = Axes(y_label="pass@1, %", y_range=(0, 1.02), percent=True, x_names=names, width=760, height=290)
    over = {estimate.over for item in evaluations if (estimate := item.estimate(HEADLINE + data.domains[0]))}
    many = any(len(item.stages) > 1 for item in evaluations)
    lead = (
        f"Held-out pass@1 of each model, with 95 % intervals over {' and '.join(sorted(over))}. "
        "Lines join the models in the order of the recipe" + ("; small dots are single seeds." if many else ".")
    )
    chart = figure(line_chart(series, axes), "")
    keys = legend([(domain, colour, False) for colour, domain in enumerate(data.domains)])
    return section("Skills after each stage", keys, chart, _skill_table(data, evaluations), lead=lead)


def _seeds(evaluations: list[Evaluation], metric: str) -> list[tuple[float, float]]:
    """Return one point a seed, beside the mean; none when there is one seed only."""
    return [
        (index, value)
        for index, item in enumerate(evaluations)
        for value in (item.values(metric) if len(item.stages) > 1 else [])
    ]


def _bounds(estimate: Estimate) -> tuple[float, float]:
    low = estimate.value if estimate.low is None else estimate.low
    high = estimate.value if estimate.high is None else estimate.high
    return max(0.0, low), min(1.0, high)


def _skill_table(data: RunData, evaluations: list[Evaluation]) -> Markup:
    shown = [item for item in OTHERS if any(evaluation.estimate(item[0]) for evaluation in evaluations)]
    head = ["model", *(f"pass@1 {domain}, %" for domain in data.domains), *(title for _, title, _ in shown)]
    rows = []
    for evaluation in evaluations:
        row: list[object] = [evaluation.model]
        row += [percent(evaluation.estimate(HEADLINE + domain)) for domain in data.domains]
        for metric, _, digits in shown:
            estimate = evaluation.estimate(metric)
            row.append(f"{estimate.value:.{digits}f}" if estimate else Markup("&ndash;"))
        rows.append(row)
    return table(head, rows)


def forgetting(data: RunData) -> Markup:
    """Return, per domain, the largest loss along the recipe and how much of it the last model has back."""
    evaluations = data.evaluations
    rows = []
    for domain in data.domains:
        track = [(item.model, item.estimate(HEADLINE + domain)) for item in evaluations]
        known = [(model, estimate.value) for model, estimate in track if estimate]
        if len(known) < 3:
            continue
        low_at = min(range(1, len(known)), key=lambda index: known[index][1])
        best_before = max(known[:low_at], key=lambda item: item[1])
        lost = best_before[1] - known[low_at][1]
        if lost < 0.01:
            rows.append([domain, "nothing lost", "", "", _points(known[-1][1] - known[0][1]), ""])
            continue
        back = known[-1][1] - known[low_at][1]
        rows.append(
            [domain, best_before[0], known[low_at][0], _points(-lost), _points(back), f"{100 * back / lost:.0f} %"]
        )
    if not rows:
        return Markup("")
    head = ["domain", "best before", "lowest at", "change there, points", "change to the end, points", "given back"]
    lead = "The deepest loss of each skill along the recipe, and the share of it that the last model has back (means)."
    return section("Forgetting and recovery", table(head, rows, numbers_from=3), lead=lead)


def _points(difference: float) -> str:
    return f"{100 * difference:+.1f}"


def pass_at_k(data: RunData) -> Markup:
    """Return pass@k curves of the evaluated models, one chart a domain."""
    charts = []
    for domain in data.domains:
        series = []
        for colour, item in enumerate(data.evaluations):
            curve = (item.stages[0].json("metrics", "pass_at_k.json") or {}).get(domain)
            if curve:
                points = sorted((int(k), value) for k, value in curve.items())
                bounds = [_curve_bounds(value) for _, value in points]
                series.append(Series(item.model, [(k, value["value"]) for k, value in points], bounds, colour))
        axes = Axes(x_label="k", y_label="pass@k, %", x_log2=True, y_range=(0, 1.02), percent=True)
        charts.append(figure(line_chart(series, axes), domain))
    keys = legend([(item.model, colour, False) for colour, item in enumerate(data.evaluations)])
    many = any(len(item.stages) > 1 for item in data.evaluations)
    lead = "Unbiased pass@k with 95 % bootstrap intervals over prompts." + (" First seed." if many else "")
    shown = grid(charts)
    return section("pass@k", keys, shown, lead=lead) if shown else Markup("")


def _curve_bounds(value: dict[str, Any]) -> tuple[float, float]:
    low, high = value.get("low"), value.get("high")
    return (value["value"] if low is None else low, value["value"] if high is None else high)


def selection(data: RunData) -> Markup:
    """Return every candidate that was compared, the losers and why they lost included."""
    parts = [_selection_table(stage) for stage in data.of("select")]
    lead = "Every checkpoint was evaluated on the development set; training reward played no part."
    return section("Checkpoint selection", *parts, lead=lead)


def _selection_table(stage: Stage) -> str:
    record = stage.json("report", "selection.json")
    if not record:
        return ""
    candidates = record["candidates"]
    names = list(dict.fromkeys(name for item in candidates for name in item["metrics"] if name.startswith(HEADLINE)))
    rows = []
    for item in candidates:
        chosen = item["status"] == "chosen"
        cells: list[object] = [Markup(f"<b>{escape(item['name'])}</b>") if chosen else item["name"]]
        cells += [percent(_estimate(item[name])) for name in ("objective", "behind_best")]
        cells += [percent(_estimate(item["metrics"].get(name))) for name in names]
        rows.append([*cells, "; ".join([item["status"].replace("_", " "), *item["broken"]])])
    titles = ["objective, %", "behind the best, %", *(f"pass@1 {name.removeprefix(HEADLINE)}, %" for name in names)]
    shown = table(["candidate", *titles, "verdict"], rows)
    return f"<h3>{escape(stage.name)}</h3><p class=lead>{escape(record['reason'])}</p>{shown}"


def _estimate(value: dict[str, Any] | None) -> Estimate | None:
    return Estimate(value["value"], value.get("low"), value.get("high"), value.get("n")) if value else None
