"""Style of Python programs by what a domain prefers: comments, names, or brevity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.contract.errors import UnknownName
from components.measure.harness.configs import MetricConfig
from components.tasks.domains.python_style import PREFERENCES, Preference, style
from components.tasks.programs.extract import extract_program

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class CodeStyleConfig(MetricConfig):
    """Which preference, where the domain does not name it."""

    gives: ClassVar[Mapping[str, str]] = {
        "code_style": "From 0 to 1, how well a program meets the preference of its domain, the mean over a prompt's "
        "responses; 0 for what is no Python",
    }
    preference: Preference | None = None
    """Measured of every domain; null: the domain's name."""


def code_style(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: CodeStyleConfig
) -> Mapping[str, Sequence[float | None]]:
    """Return the mean style of each prompt's responses; they are parsed, and never run.

    Source: CODAL-Bench of Weyssow et al. 2024 (arXiv:2403.09032) has a judge rate the preference that an instruction
    was assigned; here a program measures it. Raises UnknownName for a domain that is no preference.
    """
    domain = outcomes[0].item.domain
    preference = config.preference or next((name for name in PREFERENCES if name == domain), None)
    if preference is None:
        raise UnknownName("preference (metric code_style: the domain)", domain, PREFERENCES)
    found = [[style(extract_program(text, ("python",)), preference) for text in one.responses] for one in outcomes]
    return {"code_style": [sum(values) / len(values) if values else None for values in found]}
