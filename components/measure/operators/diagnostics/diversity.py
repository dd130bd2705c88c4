"""Diversity within the responses to a prompt, and across prompts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.measure.harness.configs import DiagnosticConfig
from components.measure.operators.metrics.diversity import DiversityConfig, ead_mean

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.harness.views import View
    from components.measure.outcomes import ItemOutcomes


class DiversityViewConfig(DiagnosticConfig):
    """How diversity across prompts is measured."""

    gives: ClassVar[Mapping[str, str]] = {
        "ead_within": "Expectation-adjusted distinct n-grams of a prompt's responses, mean over prompts",
        "ead_across": "The same of sets with one response to every prompt, mean over these sets",
    }

    vocab_size: int = Field(default=50257, ge=2)
    """As of metric diversity."""

    @property
    def least_samples(self) -> int:
        """Return 2: one response has no others to differ from."""
        return 2


def diversity(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: DiversityViewConfig
) -> View:
    """Return both by domain; sets take the first responses to all prompts, the second ones, and so on.

    Source: Kirk et al. 2023 (arXiv:2310.06452), section 5: RL lowers it within prompts more than across.
    """
    import math

    from components.measure.harness.views import View, ViewTable
    from components.measure.metrics import metric_key

    settings = DiversityConfig(vocab_size=config.vocab_size)
    metrics, rows = {}, []
    for domain, found in outcomes.items():
        within = [ead_mean(list(outcome.responses), settings) for outcome in found]
        across = [
            ead_mean(list(texts), settings) for texts in zip(*(outcome.responses for outcome in found), strict=False)
        ]
        numbers = {
            name: context.bootstrap.mean_interval([math.nan if value is None else value for value in values])
            for name, values in (("ead_within", within), ("ead_across", across))
        }
        metrics |= {metric_key(name, domain): one for name, one in numbers.items() if one.n}
        rows.append([domain, *(one if one.n else None for one in numbers.values())])
    text = (
        "Compare at equal numbers of samples and prompts: both fall as more are drawn. Across: over sets of responses."
    )
    return View(text, metrics, [ViewTable("diversity", ["domain", "within prompts", "across prompts"], rows)])
