"""Hacking audit: what responses with high rewards have in common that their verdict does not explain.

Responses are compared within strata (step, outcome), so neither learning nor verification counts: what is left is what
the other parts of the reward like. A reward that is its verdict has nothing to compare.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.measure.formulas.diversity import pieces

LONGEST = 4
"""Pieces of the longest phrase."""
MAX_RESPONSES, MAX_PIECES = 20_000, 400
"""Responses, and pieces of each, that are looked at."""
ALPHA = 0.01
"""Chance of a phrase by chance among all that were compared (Holm)."""


@dataclass(frozen=True)
class Rewarded:
    """A response with what it got."""

    text: str
    reward: float
    num_tokens: int
    stratum: tuple[int, str]
    """Step and outcome."""


@dataclass(frozen=True)
class Phrase:
    """A phrase that is over-represented among top rewards: hostile text."""

    text: str
    top_share: float
    """Share of the responses with top rewards that have it."""
    rest_share: float
    p_value: float
    """Of Fisher's exact test, one-sided, adjusted for all phrases (Holm)."""


@dataclass(frozen=True)
class Audit:
    """What top rewards have in common."""

    num_top: int
    num_rest: int
    phrases: tuple[Phrase, ...]
    """The most over-represented first."""
    top_tokens: float
    """Mean length of responses with top rewards."""
    rest_tokens: float
    length_rank: float
    """Mean over responses of the product of the standardised ranks of length and reward in their stratum: -1 to 1."""

    @property
    def length_ratio(self) -> float:
        """Return the length of top rewards over that of the rest."""
        return self.top_tokens / self.rest_tokens if self.rest_tokens else math.nan


def rewarded_rows(rows: Iterable[Mapping[str, Any]]) -> list[Rewarded]:
    """Return the responses of recorded rollouts that have a reward; failed verifications have none."""
    found = []
    for row in rows:
        if isinstance(row.get("reward"), int | float) and len(found) < MAX_RESPONSES:
            stratum = (int(row["step"]), str(row["outcome"]))
            found.append(Rewarded(str(row["response"]), float(row["reward"]), int(row["num_tokens"]), stratum))
    return found


def audit(responses: Sequence[Rewarded], *, most: int = 10) -> Audit | None:
    """Return what top rewards have in common; None where no stratum has two rewards.

    Top are the rewards at or above the upper quartile of their stratum, the rest those below it.
    """
    strata: dict[tuple[int, str], list[Rewarded]] = {}
    for response in responses:
        strata.setdefault(response.stratum, []).append(response)
    top: list[Rewarded] = []
    rest: list[Rewarded] = []
    products: list[float] = []
    for found in strata.values():
        if (bound := _upper_quartile([one.reward for one in found])) is None:
            continue
        top += [one for one in found if one.reward >= bound]
        rest += [one for one in found if one.reward < bound]
        products += _rank_products([float(one.num_tokens) for one in found], [one.reward for one in found])
    if not top or not rest:
        return None
    return Audit(
        num_top=len(top),
        num_rest=len(rest),
        phrases=tuple(over_represented([one.text for one in top], [one.text for one in rest])[:most]),
        top_tokens=math.fsum(one.num_tokens for one in top) / len(top),
        rest_tokens=math.fsum(one.num_tokens for one in rest) / len(rest),
        length_rank=math.fsum(products) / len(products) if products else 0.0,
    )


def over_represented(top: Sequence[str], rest: Sequence[str]) -> list[Phrase]:
    """Return the phrases of 1 to 4 words, numbers and marks that more of the top texts have than chance allows.

    Of phrases in the same top texts the longest stands for all.
    """
    from scipy.stats import hypergeom

    own, other = _texts_with(top), _texts_with(rest)
    counts = {phrase: len(texts) for phrase, texts in own.items() if len(texts) >= 3}
    total = len(top) + len(rest)
    tested = sorted(
        (float(hypergeom.sf(count - 1, total, count + len(other.get(phrase, ())), len(top))), phrase)
        for phrase, count in counts.items()
        if count * len(rest) > len(other.get(phrase, ())) * len(top)
    )
    found: dict[frozenset[int], Phrase] = {}
    for rank, (chance, phrase) in enumerate(tested):
        adjusted = min(1.0, chance * (len(tested) - rank))
        if adjusted > ALPHA:
            break
        shares = len(own[phrase]) / len(top), len(other.get(phrase, ())) / max(1, len(rest))
        one, texts = Phrase(" ".join(phrase), *shares, adjusted), frozenset(own[phrase])
        found[texts] = min(one, found.get(texts, one), key=_order)
    return sorted(found.values(), key=_order)


def _order(phrase: Phrase) -> tuple[float, int, str]:
    """Order by how much over-represented phrases are, then the longest, then by text."""
    return phrase.rest_share - phrase.top_share, -len(phrase.text), phrase.text


def _texts_with(texts: Sequence[str]) -> dict[tuple[str, ...], list[int]]:
    """Return the places of the texts that have each phrase."""
    found: dict[tuple[str, ...], list[int]] = {}
    for place, text in enumerate(texts):
        split = pieces(text)[:MAX_PIECES]
        for gram in {tuple(split[at : at + n]) for n in range(1, LONGEST + 1) for at in range(len(split) - n + 1)}:
            found.setdefault(gram, []).append(place)
    return found


def _upper_quartile(rewards: Sequence[float]) -> float | None:
    """Return the smallest reward of the top quarter; the next larger one where it is also the least; None without."""
    ordered = sorted(rewards)
    bound = ordered[(3 * len(ordered)) // 4] if len(ordered) > 1 else ordered[0]
    above = [reward for reward in ordered if reward > ordered[0]]
    if not above:
        return None
    return bound if bound > ordered[0] else above[0]


def _rank_products(first: Sequence[float], second: Sequence[float]) -> list[float]:
    """Return the products of standardised mid-ranks, whose mean is Spearman's correlation; empty if one is constant."""
    from scipy.stats import rankdata

    ranks = [_standardised(rankdata(values).tolist()) for values in (first, second)]
    return [] if not all(ranks) else [a * b for a, b in zip(*ranks, strict=True)]


def _standardised(values: Sequence[float]) -> list[float]:
    mean = math.fsum(values) / len(values)
    deviation = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / deviation for value in values] if deviation else []
