"""Pairs by a debate: agents say what is good and what is not about a response, one decides, and another revises."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.distinct import distinct
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import unusable
from components.synthesize.shown import as_shown
from components.synthesize.sifting import OVER_CAP
from components.synthesize.templates import check_template
from components.synthesize.writers import Text, Writers
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, REJECTED

UNJUDGED, NO_CONTRAST = "unjudged", "no_contrast"
VERDICTS = {"good": True, "bad": False}
_CASE = "{examples}\nThe task: {prompt}\nA response: {response}\n"
_DEBATE = f"{_CASE}What is good about it: {{support}}\nWhat is not: {{oppose}}\n"


class DebatedPairsConfig(GeneratorConfig):
    """What the agents are asked, and how many pairs a prompt gives."""

    kind: ClassVar[Literal["preferences"]] = "preferences"
    judges: ClassVar[bool] = True
    labelled: ClassVar[bool] = False
    shown: int = Field(default=1, ge=0, le=16)
    """Good examples that all agents are shown: the most similar other tasks of the inputs with their answers."""
    support: str = _CASE + "Say what is good about it."
    """Asked first; {prompt}, {response} and {examples} are replaced."""
    oppose: str = _CASE + "Say what is not good about it."
    """Asked first, too."""
    decide: str = _DEBATE + "It is good only if it is good in every way. Say why, then <answer>good or <answer>bad."
    """Asked with {support} and {oppose}, what was said before."""
    revise: str = (
        _DEBATE + "It was found {verdict}. Keep that unless it is clearly wrong. Say why, then <answer>good or "
        "<answer>bad."
    )
    """Asked with {verdict} as well; its answer is the label."""
    max_per_prompt: int = Field(default=1, ge=1)
    """Most pairs of a prompt, drawn at random: in the order of writers one would write the good and another the bad."""

    @model_validator(mode="after")
    def _questions_are_whole(self) -> DebatedPairsConfig:
        seen, told = ("prompt", "response"), ("prompt", "response", "support", "oppose")
        check_template("support", self.support, needs=seen, may=("examples",))
        check_template("oppose", self.oppose, needs=seen, may=("examples",))
        check_template("decide", self.decide, needs=told, may=("examples",))
        check_template("revise", self.revise, needs=(*told, "verdict"), may=("examples",))
        return self


@dataclass
class Debated:
    """A response and what has been said of it."""

    item: Item
    text: Text
    name: str
    """Id of the requests about it: random numbers of a program are its own."""
    said: dict[str, str]
    """What later agents are shown, by name."""
    label: bool | None = None
    """None where an agent wrote nothing that can be read."""


def debated_pairs(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: DebatedPairsConfig
) -> Iterator[Made | Dropped]:
    """Yield a response that is found good before one to the same prompt that is found bad.

    The first judge whose text can be used speaks for each agent. Without a readable verdict a response is dropped as
    `unjudged`. What agents write is hostile, too: control marks in it are broken before others see it.

    Source: Wei et al. 2025 (arXiv:2508.21476) and its released code: retrieval, a positive and a negative agent, a
    strict judge that says 0 or 1, and a reflecting one that keeps that unless it is clearly wrong.
    """
    found: list[Debated] = []
    for item, texts in zip(items, writers.write(items, context.drawing(config, "draw")), strict=True):
        own, reasons = distinct(texts)
        yield from map(Dropped, reasons)
        examples = _examples(item, context.pool, config.shown)
        for number, text in enumerate(own):
            said = {"response": as_shown(text.text, writers), "examples": examples}
            found.append(Debated(item, text, f"{item.id}-{number}", said))
    for name in ("support", "oppose"):
        _hear(name, found, writers, context, config)
    for name in ("decide", "revise"):
        _hear(name, found, writers, context, config)
        for one in found:
            one.label = VERDICTS.get(extract_answer(one.said.pop(name, "")).strip().casefold())
            one.said["verdict"] = "good" if one.label else "bad"
        yield from [Dropped(UNJUDGED)] * sum(one.label is None for one in found)
        found = [one for one in found if one.label is not None]
    for item in items:
        heard = [one for one in found if one.item is item]
        context.rng("pairs", item.id).shuffle(heard)
        yield from _pairs(item, heard, writers.judges[0].name, config)


def _examples(item: Item, pool: Sequence[Item], most: int) -> str:
    """Return the tasks with the largest share of words in common, with their answers; of equal ones the first."""
    words = set(item.prompt.split())

    def alike(other: Item) -> float:
        theirs = set(other.prompt.split())
        return len(words & theirs) / max(1, len(words | theirs))

    others = (one for one in pool if one.answer and one.prompt != item.prompt) if most else ()
    return "\n".join(f"{one.prompt}\nA good response: {one.answer}" for one in nlargest(most, others, key=alike))


def _hear(
    name: str, found: Sequence[Debated], writers: Writers, context: GeneratorContext, config: DebatedPairsConfig
) -> None:
    """Ask one agent about all responses and note what it says; nothing where no judge writes a usable text."""
    requests = []
    for one in found:
        shown = {key: text for key, text in one.said.items() if f"{{{key}}}" in getattr(config, name)}
        asked = ask(one.item, name, getattr(config, name), shown=shown, **one.said)
        requests.append(asked.model_copy(update={"id": one.name}))
    told = writers.write(requests, context.drawing(config, name, num_samples=1), judges=True)
    for one, texts in zip(found, told, strict=True):
        text = next((text.text for text in texts if text is not None and not unusable(text)), "")
        one.said[name] = as_shown(text, writers)


def _pairs(item: Item, own: Sequence[Debated], judge: str, config: DebatedPairsConfig) -> Iterator[Made | Dropped]:
    good, bad = [one for one in own if one.label], [one for one in own if not one.label]
    pairs = list(zip(good, bad, strict=False))[: config.max_per_prompt]
    yield from [Dropped(OVER_CAP if pairs else NO_CONTRAST)] * (len(own) - 2 * len(pairs))
    for better, worse in pairs:
        sides = {CHOSEN: better.text.text, REJECTED: worse.text.text, LABEL_SOURCE: judge}
        yield Made(item, None, {"quality": better.text.writer, **sides})
