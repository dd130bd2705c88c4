"""Prompts with a judge's list of principles in their data, as reward `rubric` reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Made
from components.synthesize.writers import Writers
from components.tasks.item import Item
from components.tasks.principles import RUBRIC, list_of, rubric_from, tasks_of


class RuledPromptsConfig(GeneratorConfig):
    """No settings of its own."""

    kind: ClassVar[Literal["prompts"]] = "prompts"
    writes: ClassVar[bool] = False


def ruled_prompts(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: RuledPromptsConfig
) -> Iterator[Made]:
    """Yield each task of the inputs with `data["rubric"]`: every principle of the inputs' one list, as a veto.

    So the reward of a response is 1 if it holds to all of them, else 0. Source: Wei et al. 2025
    (arXiv:2508.21476): the reward of GRPO is the verdict of a judge that is told its principles.
    """
    rubric = rubric_from(list_of(context.pool, "generator ruled_prompts")).model_dump(mode="json")
    for item in tasks_of(items):
        yield Made(item.model_copy(update={"data": {**item.data, RUBRIC: rubric}}))
