"""Names of the parts of a reward, and whether they can be combined. Does not import torch: planning imports it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from components.contract.operators import Bound, OperatorMisfit
from components.rl.combine_config import CombineConfig
from components.rl.configs import RewardConfig

TAKEN = ("mean", "std")
"""`reward_<name>` of the history that are not parts."""


def part_names(rewards: Sequence[Bound]) -> list[str]:
    """Return the name of each part: its operator's, or a function's in a file; the second one is "length 2"."""
    counts: Counter[str] = Counter()
    names = []
    for bound in rewards:
        name = bound.file.name.function if bound.file else bound.name
        counts[name] += 1
        names.append(name if counts[name] == 1 else f"{name} {counts[name]}")
    return names


def column_of(name: str) -> str:
    """Return the column of a part in the history: `reward_<name>`."""
    return f"reward_{name.replace(' ', '_')}{'_part' if name in TAKEN else ''}"


def weight_of(bound: Bound) -> float:
    """Return the weight of a reward operator."""
    assert isinstance(bound.config, RewardConfig)
    return bound.config.weight


def check_parts(rewards: Sequence[Bound], combine: Bound) -> None:
    """Raise OperatorMisfit for weights that are all 0, a part that is not there, or parts that cannot be combined."""
    names = part_names(rewards)
    if not any(weight_of(bound) for bound in rewards):
        raise OperatorMisfit(rewards[0], f"rl: every weight of {', '.join(names)} is 0, so that nothing is rewarded")
    config = combine.config
    if not isinstance(config, CombineConfig):
        return
    for name in config.named():
        if name not in names:
            raise OperatorMisfit(
                combine, f"rl: combine {combine.name!r} names the part {name!r}; the rewards are {', '.join(names)}"
            )
    if why := config.check(names):
        raise OperatorMisfit(combine, f"rl: combine {combine.name!r} {why}")
