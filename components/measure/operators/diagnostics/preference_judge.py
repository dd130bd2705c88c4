"""How far a judge of pairs agrees with preferences of people, scorers or other judges, and what it is biased to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.further import JUDGES
from components.judges.config import PairwiseConfig
from components.measure.harness.configs import DiagnosticConfig

if TYPE_CHECKING:
    from pathlib import Path

    from components.measure.harness.context import MeasureContext
    from components.measure.harness.views import View
    from components.measure.outcomes import ItemOutcomes
    from components.tasks.row_kinds.preferences import Preference


class PreferenceJudgeConfig(DiagnosticConfig, PairwiseConfig):
    """How the judge is asked, the first model at input `judges`, and about how many pairs of input `pairs`."""

    asks: ClassVar[tuple[str, ...]] = (JUDGES,)
    may: ClassVar[tuple[str, ...]] = ("task",)
    needs: ClassVar[tuple[str, ...]] = ("pairs",)
    gives: ClassVar[Mapping[str, str]] = {
        "preference_agreement": "Share of preferences whose chosen response the judge prefers, a tie half",
        "preference_steady": "Share of preferences of which the judge says the same in both orders",
        "preference_first_bias": "By how much it prefers what is shown first, from -0.5 to 0.5",
        "preference_length_bias": "By how much more often it prefers the longer response than the preferences do",
        "preference_repeats": "Share of preferences of which it says the same each time that it is asked; with repeats",
        "preference_unread": "Preferences of which a verdict could not be read; they are in no share",
        "num_preferences": "Preferences that the judge was asked about",
    }

    pairs: int = Field(default=256, ge=1)
    """Most pairs of one domain, the first ones."""
    repeats: int = Field(default=1, ge=1, le=64)
    """How often each pair is asked about, with seeds of their own; more than once needs a temperature above 0."""

    @model_validator(mode="after")
    def _differing(self) -> Self:
        if self.repeats > 1 and (self.temperature == 0 or self.reading == "probability"):
            raise InputError(
                f"diagnostic preference_judge: without a temperature all {self.repeats} repeats say the same; set one, "
                "with a reading of texts"
            )
        return self


def preference_judge(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], context: MeasureContext, *, config: PreferenceJudgeConfig
) -> View:
    """Return agreement, biases and self-consistency on the pairs of input `pairs`, whatever the model answers.

    Domains are those of the pairs. Raises InputError with file and line for a row that is no pair.

    Source: Zheng et al. 2023 (arXiv:2306.05685), section 4.1 (agreement), 3.3 (position and verbosity bias).
    """
    from components.measure.views.judges import preferences_view

    judge, found = context.further[JUDGES][0], _by_domain(context.pairs, config.pairs)
    return preferences_view(found, judge, config, context.bootstrap, repeats=config.repeats, seed=context.seed)


def _by_domain(folders: Sequence[Path], most: int) -> dict[str, list[Preference]]:
    """Return the first pairs of each domain; rows without one are of domain `pairs`."""
    from components.measure.metrics import check_domains
    from components.tasks.row_kinds.preferences import preference_of
    from components.tasks.row_kinds.reading import read_judged

    found: dict[str, list[Preference]] = {}
    for folder in folders:
        for pair in read_judged(folder, preference_of):
            few = found.setdefault(pair.domain or "pairs", [])
            if len(few) < most:
                few.append(pair)
    if not found:
        raise InputError("diagnostic preference_judge: input `pairs` holds no pair")
    check_domains(found)
    return found
