"""A forest plot of one claim: its effects by seed, their mean with its interval, the floors and 0."""

from __future__ import annotations

import math
from collections.abc import Iterator

from markupsafe import Markup

from pipelines.methods.recorded import RecordedClaim
from pipelines.report.arms.charts import Scale, axis
from pipelines.report.evaluations import Estimate

HEIGHT, MIDDLE = 26, 13
DOT, MARK = 2.5, 4.5
JITTER = (0, -6, 6, -3, 3)
"""Pixels by which the dots of neighbouring seeds stand apart, so that equal effects can be counted."""


def forest(claim: RecordedClaim) -> Markup:
    """Return the plot with its axis, as wide as its place; it says nothing which the text beside it does not."""
    scale = _scale(claim)
    whole = Markup('<svg class="strip forest" width="100%" height="{}" aria-hidden="true">{}</svg>{}')
    return whole.format(HEIGHT, Markup("").join(_shapes(claim, scale)), axis(scale))


def _shapes(claim: RecordedClaim, scale: Scale) -> Iterator[Markup]:
    left, right = scale.share(-claim.floor), scale.share(claim.floor)
    band = Markup('<rect class="floor" x="{:.2f}%" y="0" width="{:.2f}%" height="{}"/>')
    yield band.format(left, right - left, HEIGHT)
    yield Markup('<line class="zero" x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(scale.at(0), HEIGHT)
    dot = Markup('<circle class="seed" cx="{}" cy="{}" r="{}"/>')
    for place, effect in enumerate(claim.effects):
        if math.isfinite(effect):
            yield dot.format(scale.at(effect), MIDDLE + JITTER[place % len(JITTER)], DOT)
    found = claim.decision.interval if claim.decision else claim.interval
    if found.low is not None and found.high is not None:
        line = Markup('<line class="reach" x1="{}" x2="{}" y1="{}" y2="{}"/>')
        low, high = scale.at(found.low), scale.at(found.high)
        yield line.format(low, high, MIDDLE, MIDDLE)
        for end in (low, high):
            yield line.format(end, end, MIDDLE - 5, MIDDLE + 5)
    if math.isfinite(found.value):
        mark = Markup('<circle class="mark c0" cx="{}" cy="{}" r="{}"/>')
        yield mark.format(scale.at(found.value), MIDDLE, MARK)


def _scale(claim: RecordedClaim) -> Scale:
    found = claim.decision.interval if claim.decision else claim.interval
    ends = [found.value, found.low, found.high, claim.floor, -claim.floor, *claim.effects]
    return Scale.of(Estimate(value) for value in ends if value is not None and math.isfinite(value))
