"""Prompts that ask for a task to be answered again, given a response and a critique of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from pydantic import Field, field_validator

from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig, Kind
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import unusable
from components.synthesize.shown import as_shown
from components.synthesize.sifting import judged
from components.synthesize.writers import Writers
from components.tasks.item import Item, item_id
from components.tasks.questions import check_question, filled
from components.tasks.revised import CRITIQUE, RESPONSE

ASKED = ("prompt", "response")


class RevisionsConfig(GeneratorConfig):
    """How critics are asked, and what asks for the revision."""

    kind: ClassVar[Kind] = "prompts"
    judges: ClassVar[bool] = True
    critique: str = "{prompt}\nA response: {response}\nIs it right? Say why, then <answer>right or <answer>wrong."
    """What the judges are asked; {prompt} and {response} are replaced."""
    question: str = "{prompt}\nA response: {response}\nA critique: {critique}\nAnswer again."
    """The prompt of a row; {prompt}, {response} and {critique} are replaced."""
    num_critiques: int = Field(default=1, ge=1)
    """Critiques that each judge writes of a response."""

    @field_validator("critique")
    @classmethod
    def _asks(cls, value: str) -> str:
        return check_question("generator revisions, critique", value, ASKED, needs=ASKED)

    @field_validator("question")
    @classmethod
    def _shows(cls, value: str) -> str:
        return check_question("generator revisions", value, (*ASKED, "critique"), needs=("critique",))


def revisions(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: RevisionsConfig
) -> Iterator[Made | Dropped]:
    """Yield a row for each response of the writers and each critique of it by the judges, whatever either is worth.

    A row keeps answer, verifier and data of its item; data hold the response and the critique, too, so that a
    demonstrator can follow it. Source: Xi et al. 2025, Critique-RL: an actor has to follow critiques, wrong ones, too.
    """
    drawn = judged(items, writers.write(items, context.drawing(config, "draw")))
    pairs: dict[tuple[str, str], tuple[Item, Item]] = {}
    for item, found in zip(items, drawn, strict=True):
        for one in found:
            if one.verdict is None:
                yield Dropped(one.dropped or "")
            else:
                shown = {RESPONSE: as_shown(one.text, writers)}
                request = ask(item, "criticise", config.critique, shown=shown, response=one.text)
                pairs.setdefault((item.id, one.text), (item, request))
    drawing = context.drawing(config, "criticise", num_samples=config.num_critiques)
    written = writers.write([request for _, request in pairs.values()], drawing, judges=True)
    for ((_, response), (item, _)), texts in zip(pairs.items(), written, strict=True):
        for text in texts:
            if (reason := unusable(text)) or text is None:
                yield Dropped(reason or "")
            else:
                told = {RESPONSE: as_shown(response, writers), CRITIQUE: as_shown(text.text, writers)}
                prompt = filled(config.question, {"prompt": item.prompt, **told})
                yield Made(_row(item, prompt, response, text.text), None, {"quality": text.writer})


def _row(item: Item, prompt: str, response: str, critique: str) -> Item:
    data = {**item.data, RESPONSE: response, CRITIQUE: critique}
    changes = {"id": item_id(item.domain, prompt, item.answer), "prompt": prompt, "messages": (), "data": data}
    return item.model_copy(update=changes)
