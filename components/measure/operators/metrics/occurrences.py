"""How often responses hold a pattern, such as the mark of a further try."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.contract.regular import RegularExpression
from components.measure.harness.configs import MetricConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class OccurrencesConfig(MetricConfig):
    """What is counted."""

    gives: ClassVar[Mapping[str, str]] = {
        "occurrences": "Matches of the pattern in a response, the mean over a prompt's responses",
        "occurring": "Share of a prompt's responses that hold the pattern",
    }
    pattern: RegularExpression = r"(?i)\b(wait|alternatively|let me (check|verify|try))\b"
    """Regular expression whose matches, which do not overlap, are counted."""


def occurrences(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: OccurrencesConfig
) -> Mapping[str, list[float | None]]:
    """Return the mean number of matches and the share of responses with one, for each prompt.

    Source: RLSP (arXiv:2502.06773) counts backtracking, self-verification and other attempts over a training.
    """
    pattern = re.compile(config.pattern)
    counts = [[sum(1 for _ in pattern.finditer(text)) for text in outcome.responses] for outcome in outcomes]
    return {
        "occurrences": [sum(found) / len(found) if found else None for found in counts],
        "occurring": [sum(map(bool, found)) / len(found) if found else None for found in counts],
    }
