"""What the rewards of probes say of a reward: who earned what, and which of them is a finding."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.audit_reward.probes import GOLD, Probe, Worth
from components.audit_reward.scoring import Earned
from components.measure.intervals import Bootstrap, Interval

SAME = 1e-6
"""Rewards closer than this, times the spread, are equal."""


@dataclass(frozen=True)
class Played:
    """One probe at the prompts that it can be played at."""

    probe: Probe
    earned: Mapping[int, Earned]
    """By the place of the prompt."""

    def rewards(self, lowest: float) -> dict[int, float]:
        """Return the rewards by place; what could not be judged is not learned from, so it earns the lowest."""
        return {at: lowest if math.isnan(one.reward) else one.reward for at, one in self.earned.items()}


@dataclass(frozen=True)
class Row:
    """A probe as the table shows it."""

    name: str
    worth: Worth
    what: str
    reward: Interval
    """Mean over prompts."""
    right_share: float
    """Share that the items' verifiers take for right."""
    failed_share: float
    """Share that was not judged."""
    too_much_share: float
    """Share of the prompts at which it earns more than it may."""
    why: str
    """What is wrong with that, in words; empty if nothing is."""
    example: str
    """A text that earned too much, or the first one: hostile text."""

    def to_json(self) -> dict[str, Any]:
        """Return the row of audit.json."""
        reward = self.reward.to_json() if math.isfinite(self.reward.value) else None
        return {**vars(self), "worth": self.worth.value, "reward": reward, "is_finding": bool(self.why)}


def rows_of(played: Sequence[Played], *, tolerance: float, bootstrap: Bootstrap) -> list[Row]:
    """Return the rows of all probes; the first one is played by right responses."""
    gold = played[0]
    assert gold.probe is GOLD
    known = [one.reward for each in played for one in each.earned.values() if not math.isnan(one.reward)]
    lowest = min(known, default=0.0)
    right = gold.rewards(lowest)
    wrong = [
        reward for each in played[1:] if each.probe.worth is Worth.WRONG for reward in each.rewards(lowest).values()
    ]
    spread = max(_mean(right.values()) - min(wrong, default=lowest), 0.0)
    found = [_gold_row(gold, right, spread, tolerance, bootstrap)]
    for each in played[1:]:
        found.append(_row(each, each.rewards(lowest), right, spread, tolerance, bootstrap))
    return found


def _gold_row(gold: Played, rewards: Mapping[int, float], spread: float, tolerance: float, bootstrap: Bootstrap) -> Row:
    """Return the row of right responses: a finding where they are refused, or earn no more than the worst."""
    refused = [at for at, one in gold.earned.items() if one.outcome not in ("right", "unscored")]
    share = len(refused) / len(gold.earned)
    why = ""
    if spread <= SAME:
        why = "a right response earns no more than the worst wrong one, so there is nothing to learn"
    elif share > tolerance:
        why = (
            "the verifier refuses right responses; with the default demonstrator they have no form: see `demonstrator`"
        )
    return _made(gold, rewards, share, why, bootstrap, next(iter(refused), None))


def _row(
    played: Played,
    rewards: Mapping[int, float],
    right: Mapping[int, float],
    spread: float,
    tolerance: float,
    bootstrap: Bootstrap,
) -> Row:
    if played.probe.worth is Worth.WRONG:
        too_much = [at for at, reward in rewards.items() if reward >= right[at] - SAME * max(1.0, spread)]
        says = "earns as much as a right response"
    elif played.probe.worth is Worth.EMPTY:  # a likelihood never says quite as much of it as of a right one
        too_much = [at for at, reward in rewards.items() if reward >= right[at] - spread / 2]
        says = "earns half as much as a right response, or more, and says nothing"
    else:
        too_much = [at for at, reward in rewards.items() if reward > right[at] + tolerance * spread]
        says = "earns more than the right response that it holds"
    share = len(too_much) / len(rewards) if rewards else 0.0
    why = says if share > tolerance else ""
    return _made(played, rewards, share, why, bootstrap, next(iter(too_much), None))


def _made(
    played: Played, rewards: Mapping[int, float], share: float, why: str, bootstrap: Bootstrap, shown: int | None
) -> Row:
    earned = played.earned
    example = earned[shown if shown is not None else min(earned)].text if earned else ""
    return Row(
        name=played.probe.name,
        worth=played.probe.worth,
        what=played.probe.what,
        reward=bootstrap.mean_interval(list(rewards.values())),
        right_share=_mean(one.outcome == "right" for one in earned.values()),
        failed_share=_mean(one.outcome == "failed" for one in earned.values()),
        too_much_share=share,
        why=why,
        example=example,
    )


def _mean(values: Any) -> float:
    found = [float(value) for value in values]
    return math.fsum(found) / len(found) if found else 0.0
