"""Preference items for a judge: candidates with marks, of which a rule that no prompt tells prefers one.

`rank g: 3827 5164 8245` has a question of kind g and three candidates, each with a mark under criteria a, b, c and d.
What a kind wants must be known; then the marks can be weighed. Source: Liu et al. 2025, SPCT (arXiv:2504.02495):
principles that fit the question, critiques by them, and a score for each response.
"""

from __future__ import annotations

import random
from typing import Any, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.tasks.candidate_scores import BEST, CANDIDATES, SCALE
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.worlds.weighted_marks import (
    CRITERIA,
    HIGHEST,
    KINDS,
    LOWEST,
    WEIGHTS,
    marks_under,
    rule_of,
    score_of,
    worth,
)
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "ranks_best"
LEAD = sum(WEIGHTS)
"""By so much the best candidate's worth is above all others', so that rounded scores tell it."""


class PreferenceItemsConfig(MadeConfig):
    """How many kinds, criteria and candidates there are."""

    kinds: int = Field(default=8, ge=1, le=len(KINDS))
    """Kinds of questions, each with a rule of its own: how much there is to know."""
    criteria: int = Field(default=4, ge=2, le=len(CRITERIA))
    """Marks of a candidate; a rule weighs two of them."""
    candidates: int = Field(default=3, ge=2, le=8)
    """Candidates of an item."""
    lead: int = Field(default=LEAD, ge=LEAD, le=2 * LEAD)
    """Least difference of worth between the best candidate and any other: the knob of difficulty."""

    @model_validator(mode="after")
    def _can_be_drawn(self) -> Self:
        if self.candidates > 5 and self.lead > LEAD:
            raise InputError(
                f"source preference_items: {self.candidates} candidates with a lead of {self.lead} are seldom drawn; "
                f"take at most 5 candidates, or a lead of {LEAD}"
            )
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def preference_items(request: SourceRequest, *, config: PreferenceItemsConfig) -> SourceRows:
    """Draw items without end; the answer is the scores by the kind's own rule, of which the best has the highest.

    `data` has what verifier `ranks_best` reads (`candidates`, `best`, `scale`), `kind` and `criteria`. Other scores
    are right as well, so curate them with `verifiability: {mutations: 0}`.
    """

    def draw(rng: random.Random) -> Made | None:
        kind = rng.choice(KINDS[: config.kinds])
        shown = [
            "".join(str(rng.randint(LOWEST, HIGHEST)) for _ in range(config.criteria)) for _ in range(config.candidates)
        ]
        rule = rule_of(kind, config.criteria)
        marks = [marks_under(one, rule) for one in shown]
        *_, second, first = sorted(map(worth, marks))
        if first - second < config.lead:
            return None
        data: dict[str, Any] = {
            CANDIDATES: shown,
            BEST: [worth(one) for one in marks].index(first),
            SCALE: [LOWEST, HIGHEST],
            "kind": kind,
            "criteria": config.criteria,
        }
        asked = f"{kind}: {' '.join(shown)}"
        return Made(asked, f"rank {asked}", " ".join(str(score_of(one)) for one in marks), data)

    return made_rows("preference_items", request, config, VERIFIER, draw)
