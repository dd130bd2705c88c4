"""Pairs that differ in form alone: a right and well-formed response, and the same response with its markup broken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from components.synthesize.config import GeneratorConfig, Kind
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import Judged, judged, most
from components.synthesize.writers import Writers
from components.tasks.blocks import Grammar
from components.tasks.broken_forms import FORMS, Form, broken_forms
from components.tasks.item import Item
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, REJECTED

MALFORMED, NO_FORM = "malformed", "no_form"


class FormatPairsConfig(GeneratorConfig):
    """What is well-formed, and in which ways the form is broken."""

    grammar: Grammar = Grammar()
    """The tags of a well-formed response, in their order."""
    forms: tuple[Form, ...] = Field(default=FORMS, min_length=1)
    """The ways of breaking it of which each pair has one."""
    max_per_prompt: int = Field(default=1, ge=1)
    """Most distinct responses of a prompt that are chosen."""
    rows: Literal["pairs", "chosen"] = "pairs"
    """pairs: rows with `chosen` and `rejected`. chosen: the chosen responses of the same pairs as demonstrations, for
    SFT on what DPO prefers."""

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """Return demonstrations for the chosen responses alone; pairs are rows of prompts with both sides."""
        return "demonstrations" if self.rows == "chosen" else "preferences"  # type: ignore[return-value]


def format_pairs(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: FormatPairsConfig
) -> Iterator[Made | Dropped]:
    """Yield right and well-formed responses, each with a broken form of itself, in the same words.

    Source: Metis-SPECS (Chen et al. 2025), self-distilled pairs: form is rejected, content is not. A form is drawn
    among those of `forms` that break this response. Both kinds of `rows` draw alike.
    """
    found = judged(items, writers.write(items, context.drawing(config, "draw")))
    for item, responses in zip(items, found, strict=True):
        yield from _of_item(item, responses, context, config)


def _of_item(
    item: Item, found: Sequence[Judged], context: GeneratorContext, config: FormatPairsConfig
) -> Iterator[Made | Dropped]:
    usable = []
    for one in found:
        broken = broken_forms(one.text, config.grammar) if one.kept else {}
        if broken.keys() & set(config.forms):
            usable.append(one)
        else:
            yield Dropped(one.dropped or (NO_FORM if broken else MALFORMED))
    chosen, dropped = most(usable, config.max_per_prompt)
    yield from map(Dropped, dropped)
    for number, one in enumerate(chosen):
        broken = broken_forms(one.text, config.grammar)
        form = context.rng("form", item.id, number).choice([name for name in broken if name in config.forms])
        pair = {CHOSEN: one.text, REJECTED: broken[form], LABEL_SOURCE: form}
        if config.rows == "chosen":
            yield Made(item, one.text, {"quality": one.writer})
        else:
            yield Made(item, None, {"quality": one.writer, **pair})
