"""Angle concentration: how similar in direction the hidden states of a prompt's tokens are. T tokens, D model width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def angle_concentration(hidden: Tensor, start: int, end: int, *, inter_weight: float) -> float:
    """Return C_intra + inter_weight * C_inter of the question, tokens `start` to `end` of hidden states [T, D].

    C_intra: mean cosine over all pairs of its tokens. C_inter: mean cosine between its tokens and those before it; 0
    where there are none. Source: Wang et al. 2025, Angles Don't Lie (arXiv:2506.02281), section 3.
    """
    directions = hidden.double() / hidden.double().norm(dim=1, keepdim=True).clamp(min=1e-12)
    question, before = directions[start:end], directions[:start]
    # A mean over all pairs of cosines is the product of the mean directions.
    centre = question.mean(0)
    intra = float(centre @ centre)
    inter = float(centre @ before.mean(0)) if start else 0.0
    return intra + inter_weight * inter


def question_span(rows: Sequence[Sequence[int]]) -> tuple[int, int]:
    """Return the number of tokens all prompts share at their start and end, leaving each at least one in between."""
    shortest = min(map(len, rows))
    start = _shared(rows, range(shortest - 1))
    end = _shared([row[::-1] for row in rows], range(shortest - 1 - start))
    return start, end


def _shared(rows: Sequence[Sequence[int]], places: range) -> int:
    for place in places:
        if any(row[place] != rows[0][place] for row in rows):
            return place
    return len(places)
