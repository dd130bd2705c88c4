"""The hacking audit of a stage that learns from rewards: what its record and its history say of them."""

from __future__ import annotations

from components.contract.display import Audit
from components.contract.terminal import visible_line
from pipelines.report.collect import Stage
from pipelines.report.content import Figure, Figures, Heading, Legend, Paragraph, Part, Rows, number, share
from pipelines.report.evaluations import Estimate
from pipelines.report.frame import Axes
from pipelines.report.svg import Series, line_chart

WINDOW = 5
"""Steps of a moving mean, so that a part's movement is seen beside the noise of a step."""


def reward_audit(section: Audit, stage: Stage) -> list[Part]:
    """Return parts of the reward beside gold, and what top rewards have in common; empty for a verdict alone."""
    from components.measure.audit import audit, rewarded_rows

    found = audit(rewarded_rows(stage.lines(section.port, section.file)))
    moved = _movements(section, stage)
    if found is None and not moved:
        return []
    parts: list[Part] = [Heading(stage.name), *moved]
    if found is not None:
        parts.append(
            Paragraph(
                f"Within equal steps and outcomes, {found.num_top} responses with top rewards have "
                f"{found.top_tokens:.1f} tokens on average and {found.num_rest} others {found.rest_tokens:.1f}; rank "
                f"correlation of length and reward {found.length_rank:+.2f}."
            )
        )
        if found.phrases:
            head = ["phrase", "top rewards, %", "others, %", "p (Holm)"]
            rows = [
                [
                    visible_line(phrase.text),
                    share(Estimate(phrase.top_share)),
                    share(Estimate(phrase.rest_share)),
                    number(Estimate(phrase.p_value), digits=4),
                ]
                for phrase in found.phrases
            ]
            parts.append(Rows(head, rows))
        else:
            parts.append(Paragraph("No phrase is over-represented among top rewards beyond chance."))
    return parts


def _movements(section: Audit, stage: Stage) -> list[Part]:
    """Return one chart of how far the reward, its parts and gold are from their start; empty if it has one part."""
    history = stage.lines(section.history_port, section.history)
    columns = [name for name in dict.fromkeys(key for row in history for key in row) if _is_shown(section, name)]
    if len([name for name in columns if _is_part(section, name)]) < 2:
        return []  # the whole reward is one part
    series = []
    for colour, name in enumerate(columns):
        known = [(float(row["step"]), float(row[name])) for row in history if name in row]
        smooth = _moving(known)
        if smooth:
            series.append(Series(_title(name, section), [(x, y - smooth[0][1]) for x, y in smooth], colour=colour))
    if len(series) < 2 or all(len(one.points) < 2 for one in series):
        return []
    chart = line_chart(series, Axes(x_label="step", y_label=f"change, mean of {WINDOW}"))
    return [
        Legend([(one.name, one.colour) for one in series]),
        Figures([Figure(chart, "parts of the reward beside gold")]),
    ]


def _is_shown(section: Audit, name: str) -> bool:
    return name in section.gold or name == section.proxy or _is_part(section, name)


def _is_part(section: Audit, name: str) -> bool:
    return name.startswith(section.prefix) and name not in section.not_parts


def _title(name: str, section: Audit) -> str:
    if name in section.gold:
        return section.gold[name]
    return "reward" if name == section.proxy else name.removeprefix(section.prefix).replace("_", " ")


def _moving(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    return [
        (points[end - 1][0], sum(value for _, value in points[end - WINDOW : end]) / WINDOW)
        for end in range(WINDOW, len(points) + 1)
    ]
