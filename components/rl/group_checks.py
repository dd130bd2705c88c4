"""Settings of groups that cannot be meant, told before anything runs."""

from __future__ import annotations

from components.contract.errors import InputError
from components.rl.slots import SlotSpecs

GROUP_RELATIVE = ("group_mean", "group_mean_std", "leave_one_out")
"""Advantages that are 0 for a response alone in its group."""


def check_groups(size: int, slots: SlotSpecs, where: str = "") -> None:
    """Raise InputError for groups of one under an advantage that compares the responses of a group.

    Methods with further advantages, or with a rollout other than one group for each prompt, may learn all the same.
    """
    names = [spec.name for spec in slots.advantages]
    if size == 1 and slots.rollout.name == "group" and len(names) == 1 and names[0] in GROUP_RELATIVE:
        raise InputError(
            f"{where}group_size: 1 leaves every response alone in its group, so {names[0]} makes every advantage 0 "
            "and nothing is learned from rewards; write group_size: 2 or more, such as 8"
        )
