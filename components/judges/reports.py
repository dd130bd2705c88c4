"""How far a judge can be trusted: agreement with labels, bias by position, and whether it says the same twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.judges.config import PairwiseConfig
from components.judges.judge import Case, Kept, Model, PairwiseJudge
from components.judges.judgement import TIE, both_orders


@dataclass(frozen=True)
class PairRow:
    """What a judge says of one pair whose better response is known; None where it could not be read."""

    agrees: float | None
    """1 where it prefers the better response, asked in both orders, 0 where the other, 0.5 for a tie."""
    steady: float | None
    """1 where both orders prefer the same side, else 0."""
    first_bias: float | None
    """By how much it prefers what is shown first: 0 without bias, 0.5 for a judge that always takes the first."""
    repeats: float | None
    """1 where every repeat prefers the same side as the first time, else 0; None without repeats."""


def pair_rows(
    model: Model,
    config: PairwiseConfig,
    pairs: Sequence[tuple[Case, str, str]],
    *,
    repeats: int = 1,
    seed: int = 0,
    kept: Kept | None = None,
) -> list[PairRow]:
    """Ask about pairs, the better response first in each, `repeats` times in all with seeds of their own."""
    times = [PairwiseJudge(model, config, kept, seed=seed + number).orders(pairs) for number in range(repeats)]
    found = []
    for at in range(len(pairs)):
        first, second = times[0][at]
        said = [both_orders(*time[at], config.orders).value for time in times]
        known = [value for value in said if value is not None]
        whole = len(known) == len(said) > 1
        if first.value is None or second.value is None or said[0] is None:
            found.append(PairRow(None, None, None, None))
            continue
        found.append(
            PairRow(
                agrees=_side(said[0]) / 2 + 0.5,
                steady=float(_side(first.value) == _side(second.value)),
                first_bias=(first.value - second.value) / 2,
                repeats=float(len({_side(value) for value in known}) == 1) if whole else None,
            )
        )
    return found


def _side(value: float) -> int:
    return (value > TIE) - (value < TIE)
