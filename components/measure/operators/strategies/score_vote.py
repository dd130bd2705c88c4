"""Votes of a judge: the candidate with the highest sum of scores, of all samples or of those worth most."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.further import SCORERS
from components.contract.heads import SCORES, Head
from components.measure.harness.configs import StrategyConfig

if TYPE_CHECKING:
    from components.measure.harness.context import MeasureContext, Spent
    from components.measure.outcomes import ItemOutcomes


class ScoreVoteConfig(StrategyConfig):
    """Which judgements vote, and how exactly their expectation is taken."""

    asks_heads: ClassVar[frozenset[Head]] = SCORES

    meta: bool = False
    """Whether the reward model at input `scorers` reads each judgement, and only the share `kept` votes that it scores
    highest (a meta reward model)."""
    kept: float = Field(default=0.5, gt=0, le=1)
    """Share of the k samples that vote with `meta`, rounded down, but at least one. Source: Liu et al. 2025
    (arXiv:2504.02495): half of them."""
    subsets: int = Field(default=256, ge=1, le=100_000)
    """Draws of k from n that are counted: all of them when there are no more, else this many by chance."""

    @property
    def asked(self) -> tuple[str, ...]:
        """Return the input ports with further models that these settings require."""
        return (SCORERS,) if self.meta else ()


def score_vote(
    outcomes: Sequence[ItemOutcomes], context: MeasureContext, *, config: ScoreVoteConfig
) -> Mapping[int, Spent]:
    """Return how often the best candidate has the single highest sum of scores over k judgements of an item.

    Items are those of verifier `ranks_best`; the mean is over draws of k from those judged. A judgement whose scores
    cannot be read does not vote, and one that the reward model cannot score is kept last. Without `meta`, k = 1 is
    pass@1. Source: Liu et al. 2025, DeepSeek-GRM (arXiv:2504.02495), voting with generated rewards and meta RM.
    """
    from components.measure.formulas.choosing import score_vote_at
    from components.measure.harness.spending import spending
    from components.measure.rating import rewards_of
    from components.tasks.candidate_scores import ranked_items
    from components.tasks.seeds import derive_seed

    rankings = ranked_items("strategy score_vote", [outcome.item for outcome in outcomes])
    rated = rewards_of(context.further[SCORERS][0], outcomes) if config.meta else None
    ks, found = context.ks_of(outcomes), []
    for place, (outcome, ranking) in enumerate(zip(outcomes, rankings, strict=True)):
        rows = list(outcome.verified())
        votes = [ranking.read(outcome.responses[row]) for row in rows]
        worth = [rated[place][row] for row in rows] if rated else None
        seed = derive_seed(context.seed, "score_vote", outcome.item.id)
        found.append(
            score_vote_at(votes, ranking.is_right, ks, worth=worth, kept=config.kept, subsets=config.subsets, seed=seed)
        )
    return spending(outcomes, ks, found)
