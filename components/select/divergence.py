"""How far candidates went from the baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.context import StageContext
from components.modeling.serving.local import LocalModel

if TYPE_CHECKING:
    from components.select.candidates import Candidate
    from components.select.params import SelectParams
    from components.select.scores import Outcomes


def divergences(
    ctx: StageContext[SelectParams], candidates: Sequence[Candidate], measured: Sequence[Outcomes], baseline: Path
) -> list[float]:
    """Return KL(candidate || baseline) of each, in nats a response: the mean of log p - log p of the baseline.

    Over the candidate's own responses, which must have been drawn at temperature 1; the mark that ends a response is
    left out. An estimate below 0 is told as 0.
    """
    start = _model(ctx, "baseline", baseline)
    found = []
    for candidate, outcomes in zip(candidates, measured, strict=True):
        pairs = [
            (outcome.item.prompt_with(outcome.turns[index] if outcome.turns else ()), response)
            for by_domain in outcomes.values()
            for outcome in by_domain
            for index, response in enumerate(outcome.responses)
        ]
        own = _model(ctx, candidate.name, candidate.path).score(pairs)
        gaps = [
            one.logprob - other.logprob
            for one, other in zip(own, start.score(pairs), strict=True)
            if one is not None and other is not None
        ]
        found.append(max(0.0, math.fsum(gaps) / len(gaps)) if gaps else 0.0)
    return found


def _model(ctx: StageContext[SelectParams], name: str, folder: Path) -> LocalModel:
    return LocalModel(name, folder, device=ctx.device, dtype=ctx.params.dtype, resources=ctx.job.resources)
