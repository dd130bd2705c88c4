"""TraPO's test of unlabelled prompts: pass rates that develop as those of labelled prompts do."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.curate.selection.choice import NOT_SELECTED, TOO_FEW_VISITS, Selection
from components.curate.selection.config import SelectorConfig
from components.curate.selection.context import LEDGER, TARGETS, SelectionContext
from components.curation.candidate import Candidate

if TYPE_CHECKING:
    from components.measure.intervals import Floats


class TrajectoryMatchConfig(SelectorConfig):
    """Which curves match."""

    needs = (LEDGER, TARGETS)

    threshold: float | None = Field(default=0.4, ge=-1, le=1)
    """Keep rows whose mean cosine to the reference set is at least this; none: the share alone decides."""
    top_share: float | None = Field(default=0.1, gt=0, le=1)
    """Keep at least this share of the rows, those with the highest cosine; none: the threshold alone decides."""
    visits: int | None = Field(default=None, ge=2)
    """First visits that are compared; none: as many as each row of the reference set has."""

    @model_validator(mode="after")
    def _some_limit(self) -> TrajectoryMatchConfig:
        if self.threshold is None and self.top_share is None:
            raise InputError("set threshold, top_share or both")
        return self


def trajectory_match(
    rows: Sequence[Candidate], context: SelectionContext, *, config: TrajectoryMatchConfig
) -> Selection:
    """Keep rows whose z-normalised pass-rate curve has a high mean cosine to those of the rows at input `targets`.

    Rows at or above the threshold stay, and the top share of all. Rows of the reference set itself stay; rows with
    fewer visits than are compared go. Source: TraPO (Yang et al. 2025, arXiv:2512.13106) and its released trainer.
    """
    import numpy as np

    references = {str(row.get("id")): rates for row in context.targets if (rates := context.rates(str(row.get("id"))))}
    length = config.visits or min(map(len, references.values()), default=0)
    references = {name: rates for name, rates in references.items() if len(rates) >= length}
    if length < 2 or not references:
        raise InputError(
            f"trajectory_match: no row at input 'targets' has {config.visits or 2} visits in the ledger; connect the "
            "metrics of an rl stage that was trained on them for some epochs"
        )
    reference = mean_direction(np.array([rates[:length] for rates in references.values()]))
    scores = [
        similarity(rates[:length], reference) if len(rates := context.rates(row.id)) >= length else None for row in rows
    ]
    scored = sorted((index for index, score in enumerate(scores) if score is not None), key=lambda i: -(scores[i] or 0))
    kept = set(scored[: math.ceil(config.top_share * len(scored))] if config.top_share else ())

    def reason(index: int) -> str | None:
        score = scores[index]
        if rows[index].id in references:
            return None
        if score is None:
            return TOO_FEW_VISITS
        passes = config.threshold is not None and score >= config.threshold
        return None if passes or index in kept else NOT_SELECTED

    return Selection(tuple(map(reason, range(len(rows)))), tuple(scores))


def directions(curves: Floats) -> Floats:
    """Return curves [N, T] z-normalised over time, each of length 1; a constant curve has no direction and is 0."""
    import numpy as np

    centred = curves - curves.mean(axis=1, keepdims=True)
    lengths = np.linalg.norm(centred, axis=1, keepdims=True)
    flat = lengths < 1e-12
    return np.where(flat, 0.0, centred / np.where(flat, 1.0, lengths))


def mean_direction(references: Floats) -> Floats:
    """Return [T]: its product with a direction is the mean cosine to all references [R, T]."""
    return directions(references).mean(axis=0)


def similarity(rates: Sequence[float], reference: Floats) -> float:
    """Return the mean cosine of a curve to the references."""
    import numpy as np

    return float(directions(np.array([rates]))[0] @ reference)
