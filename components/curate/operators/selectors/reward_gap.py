"""Pairs by how far a reward model sees their sides apart: the clear ones, or the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.further import SCORERS
from components.contract.heads import SCORES, Head
from components.curate.selection.choice import Selection
from components.curate.selection.config import SelectorConfig
from components.curate.selection.context import SelectionContext
from components.curation.candidate import Candidate
from components.modeling.serving.models import Asked
from components.tasks.row_kinds.preferences import CHOSEN, REJECTED

SMALL_GAP, LARGE_GAP, UNSCORED = "small_gap", "large_gap", "unscored"


class RewardGapConfig(SelectorConfig):
    """Which half, and where it is cut."""

    needs = (SCORERS,)
    asks_heads: ClassVar[frozenset[Head]] = SCORES

    keep: Literal["easy", "difficult"] = "easy"
    """easy: gaps of the threshold or more. difficult: all smaller ones. On the same rows the two share none."""
    threshold: float | None = Field(default=None, ge=0)
    """The paper's gamma, in units of the reward; null takes the quantile."""
    quantile: float = Field(default=0.5, gt=0, lt=1)
    """Share of the gaps that lie below the threshold, where none is given."""

    @model_validator(mode="after")
    def _one_cut(self) -> RewardGapConfig:
        if self.threshold is not None and "quantile" in self.model_fields_set:
            raise InputError("set either threshold or quantile: where the gaps are cut")
        return self


def reward_gap(rows: Sequence[Candidate], context: SelectionContext, *, config: RewardGapConfig) -> Selection:
    """Keep pairs by abs(r(chosen) - r(rejected)), r the mean reward of the models at `scorers`; the gap is the score.

    The gap has no sign: a pair that the models rank the other way, and clearly, is easy as well. Source: Gou and Nguyen
    2024, Mixed Preference Optimization (arXiv:2403.19443), section 3: DPO on the easy set, PPO on the difficult one.
    Raises InputError for a row that is no pair.
    """
    gaps = _gaps(rows, context)
    known = [gap for gap in gaps if gap is not None]
    cut = config.threshold if config.threshold is not None else quantile(known, config.quantile)

    def reason(gap: float | None) -> str | None:
        if gap is None:
            return UNSCORED
        if gap >= cut:
            return None if config.keep == "easy" else LARGE_GAP
        return SMALL_GAP if config.keep == "easy" else None

    return Selection(tuple(map(reason, gaps)), tuple(gaps))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of them lie, rounded down: of 4 values and a half, the third; 0 of none."""
    return sorted(values)[int(share * len(values))] if values else 0.0


def _gaps(rows: Sequence[Candidate], context: SelectionContext) -> list[float | None]:
    """Return the gap of each pair, None where one of the models cannot score a side."""
    from components.modeling.serving.further import FurtherModels

    pairs = [pair for row in rows for pair in _sides(row)]
    with FurtherModels(context.stage, SCORERS) as further:
        told = [model.rate(pairs) for model in further.of(SCORERS)]
    means = [None if None in here else sum(here) / len(here) for here in zip(*told, strict=True)]
    sides = zip(means[0::2], means[1::2], strict=True)
    return [None if better is None or worse is None else abs(better - worse) for better, worse in sides]


def _sides(row: Candidate) -> list[tuple[Asked, str]]:
    chosen, rejected = (row.extras.get(name) for name in (CHOSEN, REJECTED))
    if row.item is None or not isinstance(chosen, str) or not isinstance(rejected, str):
        raise InputError(f"row {row.id} is no pair of texts: take source `preferences`, or rows that hold them")
    return [(row.item.task, chosen), (row.item.task, rejected)]
