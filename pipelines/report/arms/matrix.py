"""The evaluations of a matrix by arm and by step of the recipe."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from pipelines.report.arms.design import Arm, Design, title
from pipelines.report.evaluations import Evaluation, ResultTable

SHARED = 5
"""Colour of what all arms share: grey."""


@dataclass(frozen=True)
class ArmResults:
    """The evaluations of one table by step of the recipe and arm."""

    table: ResultTable
    design: Design
    """The arms that the table measures."""
    run: Design
    """The arms of the whole run, which have the colours."""

    @cached_property
    def steps(self) -> list[str]:
        """Return the measured models by the names that they have in every arm, in the order of the recipe."""
        return list(dict.fromkeys(step_of(item) for item in self.table.evaluations))

    @cached_property
    def own_steps(self) -> list[str]:
        """Return the steps that differ between arms."""
        return [step for step in self.steps if self.of_arms(step)]

    @cached_property
    def last_step(self) -> str:
        """Return the last step that the most arms have: a winner alone may be measured once more."""
        counts = {step: len(self.of_arms(step)) for step in self.own_steps}
        return [step for step in self.own_steps if counts[step] == max(counts.values())][-1]

    @cached_property
    def missing(self) -> dict[str, str]:
        """Return the arms that have no result at all, by title, with the reason: failed, skipped, not run."""
        known = [title(self.design.varied(item.arm)) for item in self.table.evaluations]
        found = {title(self.design.varied(stage.arm)): stage.status for stage in self.table.missing}
        return {name: status for name, status in found.items() if name and name not in known}

    @cached_property
    def shared(self) -> list[tuple[int, Evaluation]]:
        """Return the places and evaluations of what all arms share."""
        return [(place, item) for place, item in self.track(self.design.arms[0]) if self.design.shared(item.arm)]

    def of_arms(self, step: str) -> list[tuple[Arm, Evaluation]]:
        """Return the evaluation of each arm at a step, without one that all arms share.

        Where a step has fewer axes than the arms, as SFT before a matrix of RL methods, the first arm stands for those
        that share it.
        """
        found = [item for item in self.table.evaluations if step_of(item) == step and not self.design.shared(item.arm)]
        arms = ((next(arm for arm in self.design.arms if arm.covers(item.arm)), item) for item in found)
        return [(Arm(self.design.varied(item.arm), arm.place), item) for arm, item in arms]

    def track(self, arm: Arm) -> list[tuple[int, Evaluation]]:
        """Return an arm's evaluations in the order of the recipe, with the places of their steps."""
        found = (item for item in self.table.evaluations if arm.covers(item.arm))
        return [(self.steps.index(step_of(item)), item) for item in found]

    def own_track(self, arm: Arm) -> list[tuple[int, Evaluation]]:
        """Return an arm's evaluations from the last one before those of its own on; none if it has none of its own."""
        track = self.track(arm)
        first = next((place for place, (_, item) in enumerate(track) if not self.design.shared(item.arm)), None)
        return [] if first is None else track[max(0, first - 1) :]

    def colour(self, arm: Arm) -> int:
        """Return the colour of an arm, the same on the whole page."""
        return self.run.colour(arm.labels)


def step_of(item: Evaluation) -> str:
    """Return what was measured, by the name that it has in every arm."""
    return item.step + (f" ({item.differs})" if item.differs else "")


def arm_results(table: ResultTable, run: Design) -> ArmResults | None:
    """Return the results of a matrix by arm; None where there are no arms, or nothing of theirs was measured."""
    measured = (item.arm for item in table.evaluations)
    found = ArmResults(table, Design.of([*measured, *(stage.arm for stage in table.missing)], run.sides), run)
    return found if found.design.arms and found.own_steps else None
