"""Judgements of preference items: two principles, a critique of each candidate by them, and the scores."""

from __future__ import annotations

import random

from pydantic import Field

from components.contract.errors import InputError
from components.contract.params import Params
from components.tasks.answers import ANSWER_OPEN
from components.tasks.candidate_scores import CANDIDATES
from components.tasks.demonstrators.chain_sum_trace import THINK_OPEN
from components.tasks.domains.worlds.weighted_marks import (
    CRITERIA,
    HIGHEST,
    KINDS,
    LOWEST,
    marks_under,
    rule_of,
    rules_of,
    score_of,
)
from components.tasks.item import Item


class PreferenceItemsDemonstratorConfig(Params):
    """How well the judge knows the rules, and how careful it is."""

    principle_error_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that the principles are those of another rule, drawn by chance; the scores follow from them."""
    slip_rate: float = Field(default=0.0, ge=0, le=1)
    """Probability that a score is off, by one or two."""


def preference_items(item: Item, rng: random.Random, *, config: PreferenceItemsDemonstratorConfig) -> str:
    """Write `<think>ab 38>5 51>4 82>6<answer>5 4 6` for `rank g: 3827 5164 8245`: principles, marks, scores.

    Source: Liu et al. 2025, SPCT (arXiv:2504.02495): a judge states its principles, criticises by them, then scores.
    """
    kind, criteria, candidates = (item.data.get(key) for key in ("kind", "criteria", CANDIDATES))
    if not (
        type(criteria) is int
        and 2 <= criteria <= len(CRITERIA)
        and isinstance(kind, str)
        and kind in set(KINDS)
        and isinstance(candidates, list)
        and all(_is_candidate(one, criteria) for one in candidates)
    ):
        raise InputError(f"demonstrator preference_items: item {item.id} is not of source preference_items")
    rule = rule_of(kind, criteria)
    if rng.random() < config.principle_error_rate:
        rule = rng.choice([other for other in rules_of(criteria) if other != rule])
    critiques, scores = [], []
    for candidate in candidates:
        marks = marks_under(candidate, rule)
        score = _slip(score_of(marks), rng) if rng.random() < config.slip_rate else score_of(marks)
        critiques.append(f"{''.join(map(str, marks))}>{score}")
        scores.append(str(score))
    return f"{THINK_OPEN}{rule} {' '.join(critiques)}{ANSWER_OPEN}{' '.join(scores)}"


def _is_candidate(text: object, criteria: int) -> bool:
    allowed = {str(mark) for mark in range(LOWEST, HIGHEST + 1)}
    return isinstance(text, str) and len(text) == criteria and set(text) <= allowed


def _slip(score: int, rng: random.Random) -> int:
    return rng.choice([near for near in range(score - 2, score + 3) if LOWEST <= near <= HIGHEST and near != score])
