"""How far a trained model reaches beyond its base: where their pass@k cross, and what each alone solves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.further import REFERENCE
from components.measure.harness.configs import DiagnosticConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.harness.views import View
    from components.measure.outcomes import ItemOutcomes


class BoundaryConfig(DiagnosticConfig):
    """What is compared, beside the samples that both evaluations drew."""

    gives: ClassVar[Mapping[str, str]] = {
        "crosses": "1 if the base's pass@k reaches this model's at some k measured, else 0",
        "crossing_share": "Share of resamples of the prompts in which it does",
        "crossover_k": "The smallest such k, if there is one",
        "solved_both": "Prompts that both solve in all their samples",
        "solved_base_only": "Prompts that only the base solves",
        "solved_here_only": "Prompts that only this model solves",
        "solved_none": "Prompts that neither solves",
        "gap_to_base": "The base's pass@K less this model's pass@1, K being the largest k",
        "reference_perplexity": "Perplexity by token of this model's responses under the model at input `reference`",
        "reference_own_perplexity": "The same of that model's own responses to these prompts",
        "boundary_unpaired": "Prompts without a partner in the baseline, or with failed verifications",
    }
    needs: ClassVar[tuple[str, ...]] = ("baseline",)
    uses: ClassVar[tuple[str, ...]] = (REFERENCE,)

    k: int | None = Field(default=None, ge=2)
    """Largest k; unset: all samples."""
    own_samples: int = Field(default=8, ge=1, le=1024)
    """Responses to each prompt that the model at `reference` writes, to see how likely it finds its own."""

    @property
    def least_samples(self) -> int:
        """Return the largest k, or 2: curves of one point do not cross."""
        return self.k or 2


def boundary(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: BoundaryConfig
) -> View:
    """Return crossover k*, the coverage table, the gap to the base and, with input `reference`, perplexities.

    Source: Yue et al. 2025 (arXiv:2504.13837): k* is the smallest k at which the base's unbiased pass@k is not below
    this model's; where both solve everything there is none. Prompts are paired by id.
    """
    from components.measure.views.boundary import boundary_view

    return boundary_view(outcomes, context, largest=config.k, own_samples=config.own_samples)
