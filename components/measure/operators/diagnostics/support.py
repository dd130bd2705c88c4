"""Which prompts a trained model still solves, has lost, and has won, against its base."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.measure.harness.configs import DiagnosticConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.harness.views import View
    from components.measure.outcomes import ItemOutcomes


class SupportConfig(DiagnosticConfig):
    """How many samples support means."""

    gives: ClassVar[Mapping[str, str]] = {
        "support_preserved": "Share of prompts that both models solve in k samples",
        "support_shrunk": "Share that only the base solves",
        "support_expanded": "Share that only this model solves",
        "support_out": "Share that neither solves",
        "support_srr": "Support retention rate, preserved / (preserved + shrunk)",
        "support_ndr": "Net discovery rate, expanded / (preserved + expanded)",
        "support_sds": "Support dynamic score, the harmonic mean of retention and discovery",
        "support_nscr": "Net support change rate, (expanded - shrunk) / (preserved + expanded + shrunk)",
        "support_unpaired": "Prompts without a partner in the baseline, or with failed verifications",
    }
    needs: ClassVar[tuple[str, ...]] = ("baseline",)

    k: int | None = Field(default=None, ge=1)
    """Samples in which a prompt must be solved at least once, a support threshold of about 1 / k; unset: all. With
    fewer, chances over draws of k take the place of counts."""

    @property
    def least_samples(self) -> int:
        """Return k."""
        return self.k or 1


def support(outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: SupportConfig) -> View:
    """Return the four cells, the scores made of them, and both entropies beside the base's.

    Source: Wu et al. 2025, The Invisible Leash (arXiv:2507.14843). Prompts are paired by id; both evaluations must have
    drawn equally many samples.
    """
    from components.measure.views.support import support_view

    return support_view(outcomes, context, budget=config.k)
