"""Prompts with the beginning of a right solution: scaffolds of prompts that are too hard."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.regular import RegularExpression
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import judged, most
from components.synthesize.templates import check_template, fill
from components.synthesize.writers import Writers
from components.tasks.item import Item, item_id
from components.tasks.worked import thought_of

NO_STEPS = "no_steps"


class PartialSolutionsConfig(GeneratorConfig):
    """Whose solutions, and how much of them is shown."""

    kind = "prompts"
    chunks: int = Field(default=4, ge=1)
    """Parts of equal length, in steps, that a solution is cut into."""
    shown: tuple[int, ...] = (0, 1, 2, 3)
    """How many of the parts a prompt shows, a row for each; 0 is the prompt itself."""
    between: RegularExpression = Field(default=r"\s+", min_length=1)
    """Regular expression of what stands between two steps; steps are joined by a space."""
    template: str = "{prompt}\n(so far: {solution})"
    """The prompt with what is shown; {prompt} and {solution} are replaced."""
    max_solutions: int = Field(default=1, ge=1)
    """Most solutions of a prompt that are cut."""

    @model_validator(mode="after")
    def _parts_exist(self) -> PartialSolutionsConfig:
        check_template("template", self.template, needs=("prompt", "solution"))
        if not self.shown or not all(0 <= part < self.chunks for part in self.shown):
            raise InputError(f"shown: expected parts from 0 to {self.chunks - 1}, as chunks is {self.chunks}")
        return self


def partial_solutions(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: PartialSolutionsConfig
) -> Iterator[Made | Dropped]:
    """Yield each item with the first parts of a right solution in its prompt; answers and verifiers stay.

    A solution has the steps of its thought; one with fewer steps than parts is dropped. Its last part is never shown
    whole. Wang et al. 2025 (SPARKLE, arXiv:2506.04723): parts 0 to 4 of hard problems.
    """
    drawn = judged(items, writers.write(items, context.drawing(config, "solve")))
    for item, found in zip(items, drawn, strict=True):
        yield from (Dropped(one.dropped) for one in found if one.dropped)
        chosen, dropped = most([one for one in found if one.kept], config.max_solutions)
        yield from map(Dropped, dropped)
        for one in chosen:
            yield from _cut(item, one.text, one.writer, config)


def _cut(item: Item, solution: str, writer: str, config: PartialSolutionsConfig) -> Iterator[Made | Dropped]:
    steps = [step for step in re.split(config.between, thought_of(solution)) if step and step.strip()]
    if len(steps) < config.chunks:
        yield Dropped(NO_STEPS)
        return
    for part in config.shown:
        text = " ".join(steps[: part * len(steps) // config.chunks])
        prompt = fill(config.template, prompt=item.prompt, solution=text) if part else item.prompt
        name = item_id(item.domain, prompt, item.answer) if part else item.id
        made = item.model_copy(update={"id": name, "prompt": prompt, "messages": () if part else item.messages})
        yield Made(made, None, {"of": item.id, "shown": part, "quality": writer})
