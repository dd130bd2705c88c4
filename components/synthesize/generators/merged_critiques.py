"""One critique of several critics': the flaws that enough of them name (MultiCritique)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from pydantic import Field, field_validator

from components.synthesize.asking import judgement
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.critics import criticised
from components.synthesize.made import Dropped, Made
from components.synthesize.shown import as_shown
from components.synthesize.writers import Writers
from components.tasks.critique_units import critique_of, voted, written
from components.tasks.item import Item
from components.tasks.questions import check_question, filled

QUESTION = (
    "{prompt}\nA response: {response}\nName its flaws, each by its place and kind: <answer>2 sign, 3 slip or none."
)
NAMES = ("prompt", "response")


class MergedCritiquesConfig(GeneratorConfig):
    """What critics are asked, and how many have to agree."""

    judges: ClassVar[bool] = True
    question: str = QUESTION
    """The prompt of a row, which the judges are asked too; {prompt} and {response} are replaced."""
    min_votes: int = Field(default=2, ge=1)
    """Critics that have to name a flaw; 1 takes every flaw that anybody names."""

    @field_validator("question")
    @classmethod
    def _whole(cls, value: str) -> str:
        return check_question("generator merged_critiques", value, NAMES, needs=NAMES)


def merged_critiques(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: MergedCritiquesConfig
) -> Iterator[Made | Dropped]:
    """Yield for each response a row whose critique names the units with `min_votes`, in order, or none.

    Lan et al. 2024 (MultiCritique, arXiv:2410.15287): units of several critics, judged and merged into one critique.
    Ours: the meta-judgement is a vote. A row's answer is what the merged critique names, its verifier `exact`.
    """
    found, dropped = criticised(items, writers, context, config, config.question, min_votes=config.min_votes)
    yield from map(Dropped, dropped)
    for one in found:
        units = voted([units for _, units in one.critiques], config.min_votes)
        prompt = filled(config.question, {"prompt": one.item.prompt, "response": as_shown(one.response, writers)})
        yield Made(judgement(one.item, prompt, written(units)), critique_of(units), {"of": one.item.id})
