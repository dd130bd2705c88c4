"""Pairs of critiques: the one with more valid units before the other, kept where a revision by it is really better."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from components.contract.operators import OperatorSpec
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.critics import Criticised, criticised
from components.synthesize.generators.merged_critiques import NAMES, QUESTION
from components.synthesize.made import Dropped, Made
from components.synthesize.shown import as_shown
from components.synthesize.writers import Writers
from components.tasks.critique_units import agreement, critique_of, voted, written
from components.tasks.item import Item, item_id
from components.tasks.questions import check_question, filled
from components.tasks.revised import CRITIQUE, RESPONSE
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, MARGIN, REJECTED
from components.tasks.seeds import derive_rng
from components.tasks.slots import DEMONSTRATOR
from components.tasks.verify import verify_all

NO_CONTRAST, NO_GAIN = "no_contrast", "no_gain"


class CritiquePairsConfig(GeneratorConfig):
    """What critics are asked, which of their units are valid, and who revises."""

    kind: ClassVar[Literal["preferences"]] = "preferences"
    judges: ClassVar[bool] = True
    question: str = QUESTION
    """The prompt of a row, which the judges are asked too; {prompt} and {response} are replaced."""
    min_votes: int = Field(default=2, ge=1)
    """Critics that have to name a flaw for it to be valid."""
    reviser: Annotated[OperatorSpec, DEMONSTRATOR] | None = None
    """Who revises a response by `data["critique"]`: a pair is kept where the chosen critique leads to a right revision
    and the rejected one does not. null keeps all."""

    @field_validator("question")
    @classmethod
    def _whole(cls, value: str) -> str:
        return check_question("generator critique_pairs", value, NAMES, needs=NAMES)

    @model_validator(mode="after")
    def _known(self) -> CritiquePairsConfig:
        if self.reviser is not None:
            self.reviser.resolve()
        return self


def critique_pairs(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: CritiquePairsConfig
) -> Iterator[Made | Dropped]:
    """Yield for each response its best critique against its worst, by F1 of their units with the valid ones.

    Lan et al. 2024 (MultiCritique, arXiv:2410.15287): critiques ranked by valid units, pairs filtered by revisions made
    from them. Reconstructed: the score, and that one pair is made. The margin is the difference of F1.
    """
    found, dropped = criticised(items, writers, context, config, config.question, min_votes=config.min_votes)
    yield from map(Dropped, dropped)
    for one in found:
        valid = voted([units for _, units in one.critiques], config.min_votes)
        scored = [(agreement(units, valid)[2], units) for _, units in one.critiques]
        best, worst = max(scored, key=lambda pair: pair[0]), min(scored, key=lambda pair: pair[0])
        if best[0] <= worst[0]:
            yield Dropped(NO_CONTRAST)
        elif config.reviser is not None and not _gains(one, best[1], worst[1], config.reviser, context):
            yield Dropped(NO_GAIN)
        else:
            shown = {"prompt": one.item.prompt, "response": as_shown(one.response, writers)}
            yield _pair(one.item, filled(config.question, shown), best, worst)


def _gains(
    one: Criticised, best: Sequence[str], worst: Sequence[str], reviser: OperatorSpec, context: GeneratorContext
) -> bool:
    write = reviser.resolve()
    texts = []
    for units in (best, worst):
        data = {**one.item.data, RESPONSE: one.response, CRITIQUE: critique_of(units)}
        rng = derive_rng(context.seed, "revise", one.item.id, one.response)
        texts.append(str(write(one.item.model_copy(update={"data": data}), rng)))
    better, other = verify_all((one.item, text) for text in texts)
    return better.right and not other.right and not other.failed


def _pair(of: Item, prompt: str, best: tuple[float, Sequence[str]], worst: tuple[float, Sequence[str]]) -> Made:
    answer = written(best[1])
    item = Item(
        id=item_id(of.domain, prompt, answer),
        domain=of.domain,
        prompt=prompt,
        answer=answer,
        verifier="exact",
    )
    sides = {CHOSEN: critique_of(best[1]), REJECTED: critique_of(worst[1])}
    return Made(item, None, {**sides, MARGIN: best[0] - worst[0], LABEL_SOURCE: "votes"})
