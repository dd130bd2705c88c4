"""The section `fork`: a run that goes on from a kept checkpoint of another run, with other parameters from there on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contract.job import Fork
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems, meant, shown
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.draft import StageDraft

FORK = "fork"
PLACE = re.compile(r"([^@\s]+)@([1-9][0-9]{0,11})")
NAME = r"^[a-z][a-z0-9_-]{0,62}$"


class ForkWords(BaseModel):
    """The section `fork`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str = Field(min_length=1, max_length=200)
    """The id of the run that is forked."""
    at: str
    """Where: STAGE@STEP."""
    name: str | None = Field(default=None, pattern=NAME)
    """What the new run's id begins with, where its engine lets us choose."""


@dataclass(frozen=True)
class ForkPoint:
    """Where a recipe's run parts from another one."""

    run: str
    stage: str
    step: int
    name: str | None = None

    @property
    def place(self) -> str:
        """Return the stage and the step as people write them."""
        return f"{self.stage}@{self.step}"

    def of(self, stage: str) -> Fork | None:
        """Return what the job of a stage goes on from; None if it is another stage that is forked."""
        return Fork(run=self.run, step=self.step) if stage == self.stage else None

    def to_record(self) -> dict[str, Any]:
        """Return it for the run's record."""
        return {"run": self.run, "stage": self.stage, "step": self.step, **({"name": self.name} if self.name else {})}


def parse_place(text: str) -> tuple[str, int] | None:
    """Return stage and step of STAGE@STEP, or None."""
    found = PLACE.fullmatch(text.strip())
    return (found[1], int(found[2])) if found else None


def read_fork(root: Node, drafts: Mapping[str, StageDraft], problems: Problems) -> ForkPoint | None:
    """Return where a recipe's runs are forked; None if they are not, or if a problem of it was noted."""
    node = root.child(FORK)
    if node is None or node.value is None:
        return None
    try:
        words = ForkWords.model_validate(node.plain())
    except ValidationError as error:
        add_schema_errors(problems, error, node, what="fork.", schema=ForkWords)
        return None
    place, at = parse_place(words.at), node.child("at") or node
    if place is None:
        problems.add(at.mark, f"fork.at: got {shown(words.at)}, expected STAGE@STEP, such as rl@40")
        return None
    stage, step = place
    if stage not in drafts:
        problems.add(at.mark, f"fork.at: unknown stage {shown(stage)}{meant(stage, drafts)}")
        return None
    component = drafts[stage].component
    if component is not None and component.forks is None:
        able = [name for name, draft in drafts.items() if draft.component and draft.component.forks]
        instead = f"; stages that can be forked: {', '.join(able)}" if able else ""
        problems.add(at.mark, f"fork.at: component {component.name!r} makes no checkpoints of steps{instead}")
        return None
    return ForkPoint(words.run, stage, step, words.name)
