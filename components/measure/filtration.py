"""Policy filtration: how much each response to a prompt counts by the rank of its reward. Plain numbers, no numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Strategy = Literal["bon", "br", "bw", "pow", "max_min", "max_random"]
"""bon: the best response. br: the best and one of the rest. bw: the best and the worst. The others are draws by weight.
pow: |reward|^power. max_min: 1 for the highest and the lowest reward, else 0. max_random: 1 for the highest, else
less."""
KEPT: dict[str, int] = {"bon": 1, "br": 2, "bw": 2}
"""How many responses a strategy keeps of a prompt; the others draw as many as they are told."""


def rank_weights(rewards: Sequence[float], strategy: Strategy, *, power: float = 2.0, rest: float = 0.4) -> list[float]:
    """Return how often each response is kept, in expectation, or what draws are in proportion to.

    The first of equal best ones is the best, the last of equal worst ones the worst. All weights 0: all are 1.

    Shen and Zhang 2024, Policy Filtration (arXiv:2409.06957): bon, br, bw; the weights: verl's option pf_ppo.
    """
    places, high, low = range(len(rewards)), max(rewards), min(rewards)
    best, worst = rewards.index(high), max(at for at in places if rewards[at] == low)
    if strategy == "pow":
        largest = max(map(abs, rewards)) or 1.0  # of powers of large numbers nothing overflows
        weights = [(abs(reward) / largest) ** power for reward in rewards]
    elif strategy == "max_min":
        weights = [float(reward in (high, low)) for reward in rewards]
    elif strategy == "max_random":
        weights = [1.0 if reward == high else rest for reward in rewards]
    elif strategy == "br":
        weights = [1.0 if at == best else 1.0 / (len(rewards) - 1) for at in places]
    else:
        weights = [float(at == best or (strategy == "bw" and at == worst)) for at in places]
    return weights if any(weights) else [1.0] * len(rewards)


def middle_weights(rewards: Sequence[float]) -> list[float]:
    """Return 1 for the responses between the best and the worst, which nothing keeps by themselves, else 0."""
    return [1.0 - weight for weight in rank_weights(rewards, "bw")]
