"""Settings of groups that cannot be meant, told before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.contract.errors import InputError

if TYPE_CHECKING:
    from components.rl.params import RLParams

GROUP_RELATIVE = ("group_mean", "group_mean_std", "leave_one_out")
"""Advantages that are 0 for a response alone in its group."""


def check_groups(params: RLParams) -> None:
    """Raise InputError for groups of one under an advantage that compares the responses of a group.

    Methods with further advantages, or with a rollout other than one group for each prompt, may learn all the same.
    """
    for phase in params.phases or (None,):
        size = phase.group_size if phase and phase.group_size is not None else params.group_size
        if size > 1:
            continue
        slots = params.slots(phase)
        names = [spec.name for spec in slots.advantages]
        if slots.rollout.name == "group" and len(names) == 1 and names[0] in GROUP_RELATIVE:
            where = f"phase {phase.name}: " if phase else ""
            raise InputError(
                f"{where}group_size: 1 leaves every response alone in its group, so {names[0]} makes every advantage 0 "
                "and nothing is learned from rewards; write group_size: 2 or more, such as 8"
            )
