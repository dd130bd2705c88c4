"""Line charts: columns of a history by step, arms overlaid, and profiles of the measured models."""

from __future__ import annotations

from collections.abc import Sequence

from components.contract.display import Curves, Profiles
from pipelines.report.arms.design import Design, title
from pipelines.report.arms.histories import History, Line, histories
from pipelines.report.collect import Stage, group_name
from pipelines.report.content import Figure, Figures, Heading, Legend, Paragraph, Part
from pipelines.report.evaluations import Estimate, Evaluation
from pipelines.report.frame import Axes, padded
from pipelines.report.svg import Series, line_chart


def curves(section: Curves, stages: Sequence[Stage], run: Design) -> list[Part]:
    """Return the curves of one stage of the recipe: a line for each arm, its seeds as a band, rounds in sequence."""
    found = histories(section, stages)
    several = len(found) > 1
    figures = []
    for column, caption in section.columns.items():
        lines = [(history, history.line(section.x, column)) for history in found]
        shown = [line.mean for _, line in lines] + [one for _, line in lines for one in line.single.values()]
        if any(len(points) > 1 for points in shown):
            series = [one for history, line in lines for one in _series(history, line, run, several=several)]
            values = [y for points in shown for _, y in points]
            marks = found[0].ends(section.x)
            axes = Axes(x_label=section.x, x_marks=marks, y_range=padded(min(values), max(values)))
            figures.append(Figure(line_chart(series, axes), caption))
    if not figures:
        return []
    name = stages[0].group if several or found[0].num_rounds > 1 else group_name(stages[0])
    keys = [Legend([(title(item.arm), run.colour(item.arm)) for item in found])] if several else []
    return [Heading(name), *keys, *_about(found), Figures(figures)]


def _series(history: History, line: Line, run: Design, *, several: bool) -> list[Series]:
    """Return the lines of an arm: its mean with a band, and single seeds where no other arm is in the chart."""
    colour, name = run.colour(history.arm), history.name
    mean = Series(name, line.mean, line.band or None, colour)
    if several and line.mean:
        return [mean]
    singles = line.single.items() if history.num_seeds > 1 else ()
    return [*(Series(seed, points, None, colour, thin=True) for seed, points in singles), mean]


def _about(found: Sequence[History]) -> list[Part]:
    """Return in words what bands and dotted lines are."""
    seeds, rounds = max(item.num_seeds for item in found), max(item.num_rounds for item in found)
    told = []
    if seeds > 1:
        thin = "" if len(found) > 1 else "; thin lines are single seeds"
        told.append(f"Means over {seeds} seeds, with 95 % t intervals as bands{thin}.")
    if rounds > 1:
        told.append(f"{rounds} rounds one after the other; dotted lines are where one ends.")
    return [Paragraph(" ".join(told), "lead")] if told else []


def profiles(section: Profiles, shown: Sequence[tuple[str, int, Evaluation]]) -> list[Part]:
    """Return a chart per entry of the file, one line per model; of several seeds the first is shown.

    `shown` has the name, colour and evaluation of each model.
    """
    files = [item.stages[0].json(section.port, section.file) or {} for _, _, item in shown]
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
        for (name, colour, _), found in zip(shown, files, strict=True):
            points = sorted((float(x), Estimate.read(entry)) for x, entry in found.get(chart, {}).items())
            bounds = [_bounds(estimate) for _, estimate in points]
            series.append(Series(name, [(x, estimate.value) for x, estimate in points], bounds, colour))
        if drawn := line_chart(series, axes):
            figures.append(Figure(drawn, chart))
    return [Legend([(name, colour) for name, colour, _ in shown]), Figures(figures)] if figures else []


def _bounds(estimate: Estimate) -> tuple[float, float]:
    value = estimate.value
    return (value if estimate.low is None else estimate.low, value if estimate.high is None else estimate.high)
