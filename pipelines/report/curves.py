"""Line charts: columns of a history by step, and profiles of the measured models."""

from __future__ import annotations

from collections.abc import Sequence

from components.contract.display import Curves, Profiles
from pipelines.report.collect import Stage, group_name
from pipelines.report.content import Figure, Figures, Heading, Part, legend
from pipelines.report.evaluations import Estimate, Evaluation
from pipelines.report.svg import Axes, Series, line_chart


def curves(section: Curves, stages: Sequence[Stage]) -> list[Part]:
    """Return the curves of one group of stages, one line per seed."""
    histories = [(stage, stage.lines(section.port, section.file)) for stage in stages]
    figures = []
    for column, caption in section.columns.items():
        series = [
            Series(stage.name, [(row[section.x], row[column]) for row in rows if column in row], None, colour)
            for colour, (stage, rows) in enumerate(histories)
        ]
        if any(len(item.points) > 1 for item in series):
            figures.append(Figure(line_chart(series, Axes(x_label=section.x)), caption))
    if not figures:
        return []
    keys = [legend([stage.name for stage in stages])] if len(stages) > 1 else []
    return [Heading(group_name(stages[0])), *keys, Figures(figures)]


def profiles(section: Profiles, evaluations: Sequence[Evaluation]) -> list[Part]:
    """Return a chart per entry of the file, one line per model; of several seeds the first is shown."""
    files = [item.stages[0].json(section.port, section.file) or {} for item in evaluations]
    axes = Axes(
        x_label=section.x_label,
        y_label=section.y_label,
        x_log2=section.x_log2,
        y_range=(0, 1.02) if section.share else None,
        percent=section.share,
    )
    figures = []
    for chart in dict.fromkeys(name for found in files for name in found):
        series = []
        for colour, (item, found) in enumerate(zip(evaluations, files, strict=True)):
            points = sorted((float(x), Estimate.read(entry)) for x, entry in found.get(chart, {}).items())
            bounds = [_bounds(estimate) for _, estimate in points]
            series.append(Series(item.model, [(x, estimate.value) for x, estimate in points], bounds, colour))
        if drawn := line_chart(series, axes):
            figures.append(Figure(drawn, chart))
    return [legend([item.model for item in evaluations]), Figures(figures)] if figures else []


def _bounds(estimate: Estimate) -> tuple[float, float]:
    value = estimate.value
    return (value if estimate.low is None else estimate.low, value if estimate.high is None else estimate.high)
