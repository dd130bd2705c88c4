"""Diversity of the responses to one prompt."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.measure.formulas.diversity import ead, pieces
from components.measure.harness.configs import MetricConfig
from components.tasks.answers import path_to_answer

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext
    from components.measure.outcomes import ItemOutcomes


class DiversityConfig(MetricConfig):
    """Which n-grams are counted."""

    gives: ClassVar[Mapping[str, str]] = {
        "ead": "Distinct n-grams of a prompt's responses over those expected of that many, mean over n",
        "paths": "Distinct ways to the answer among a prompt's samples",
        "right_paths": "Distinct ways to a right answer among a prompt's samples",
    }

    shortest: int = Field(default=1, ge=1)
    """Smallest n. Source: Kirk et al. 2023 (arXiv:2310.06452), section 5: n from 1 to 5."""
    longest: int = Field(default=5, ge=1, le=20)
    """Largest n."""
    vocab_size: int = Field(default=50257, ge=2)
    """Words that could have been written. The released code's (facebookresearch/rlfh-gen-div) whatever the tokenizer,
    so that models compare."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.shortest > self.longest:
            raise InputError(f"shortest: {self.shortest} is more than longest, {self.longest}")
        return self


def diversity(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: DiversityConfig
) -> Mapping[str, list[float | None]]:
    """Return ead, paths and right_paths of each prompt, over all of its responses; they grow with the samples drawn.

    A path is what a response writes before its answer, white space aside; failed verifications are not right.
    """
    return {
        "ead": [ead_mean(list(outcome.responses), config) for outcome in outcomes],
        "paths": [float(len(set(map(path_to_answer, outcome.responses)))) for outcome in outcomes],
        "right_paths": [float(len(_right_paths(outcome))) if outcome.num_verified else None for outcome in outcomes],
    }


def _right_paths(outcome: ItemOutcomes) -> set[str]:
    verdicts = zip(outcome.responses, outcome.verdicts, strict=True)
    return {path_to_answer(response) for response, verdict in verdicts if verdict.right}


def ead_mean(responses: Sequence[str], config: DiversityConfig) -> float | None:
    """Return the mean over n of the expectation-adjusted distinct n-grams; None where no response has any.

    Source: Liu et al. 2022 (arXiv:2202.13587). An n that no response reaches is left out; the released code counts 0.
    """
    split = [pieces(response) for response in responses]
    found = [value for n in range(config.shortest, config.longest + 1) if (value := ead(split, n, config.vocab_size))]
    return math.fsum(found) / len(found) if found else None
