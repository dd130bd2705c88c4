"""How long responses are: what short answers, and sweeps that look for them, are compared by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from components.measure.harness.configs import MetricConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class ResponseTokensConfig(MetricConfig):
    """No settings of its own."""

    gives: ClassVar[Mapping[str, str]] = {
        "response_tokens": "Tokens of a response, its end included, the mean over a prompt's responses"
    }


def response_tokens(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: ResponseTokensConfig
) -> Mapping[str, list[float | None]]:
    """Return the mean number of tokens of each prompt's responses, of those that were cut as well.

    Source: what Wu et al. 2025 (arXiv:2503.20641) report beside accuracy; stage evaluate's mean_tokens, by prompt.
    """
    lengths = [outcome.lengths for outcome in outcomes]
    return {"response_tokens": [sum(found) / len(found) if found else None for found in lengths]}
