"""Influence: rows whose gradient points where the gradient of a target set points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from components.curate.selection.choice import Selection, keep_best
from components.curate.selection.config import RankConfig
from components.curate.selection.context import POLICY, TARGETS, SelectionContext
from components.curation.candidate import Candidate


class InfluenceConfig(RankConfig):
    """How many rows are kept, and how domains of the target set count."""

    needs = (POLICY, TARGETS)

    domains: Literal["mean", "max"] = "mean"
    """The cosine to the mean gradient of all targets, or the largest of those to the targets of each domain, which
    takes memory for one more gradient a domain."""
    max_tokens: int = Field(default=1024, ge=2)
    """Longest row in tokens; longer ones are cut."""
    chunk: int = Field(default=64, ge=1)
    """Rows between two checkpoints."""


def influence(rows: Sequence[Candidate], context: SelectionContext, *, config: InfluenceConfig) -> Selection:
    """Keep the rows with the largest cosine between the gradient of their loss and that of the rows at `targets`.

    The loss is sft's, the mean over a row's response, or over its reference answer if it has none; gradients are those
    of all weights of the model at `policy`. One row's gradient is held at a time, so memory is that of a few models
    whatever the number of rows. Source: LESS (Xia et al. 2024, arXiv:2402.04333), equations 1 and 5, with plain
    gradients in the place of Adam's and without a projection; `max` is its maximum over subtasks.
    """
    from components.curate.selection.gradients import GradientSettings, cosines

    settings = GradientSettings(config.domains == "max", config.max_tokens, config.chunk)
    return keep_best(cosines(rows, context, settings), config)
