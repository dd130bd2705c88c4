"""Responses and what several critics say of each: the ground of generators that merge and rank critiques."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.contract.errors import InputError
from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.distinct import distinct
from components.synthesize.parsing import UNPARSED, unusable
from components.synthesize.shown import as_shown
from components.synthesize.writers import Writers
from components.tasks.critique_units import units_of
from components.tasks.item import Item
from components.tasks.revised import RESPONSE

TOO_FEW = "too_few_critics"


@dataclass(frozen=True)
class Criticised:
    """One response to an item, with the critiques that can be read."""

    item: Item
    response: str
    critiques: tuple[tuple[str, tuple[str, ...]], ...]
    """Critic and the units that it names."""


def criticised(
    items: Sequence[Item],
    writers: Writers,
    context: GeneratorContext,
    config: GeneratorConfig,
    question: str,
    *,
    min_votes: int,
) -> tuple[list[Criticised], list[str]]:
    """Return every distinct response with its critiques, and why texts were dropped.

    Each judge writes one critique of a response, whatever that is worth. Responses of which fewer than `min_votes` can
    be read are dropped, as no flaw of theirs could have the votes. Raises InputError for fewer judges than that.
    """
    if len(writers.judges) < min_votes:
        raise InputError(
            f"synthesize: min_votes {min_votes} of {len(writers.judges)} judges; connect more, or lower it"
        )
    dropped: list[str] = []
    asked: list[tuple[Item, str, Item]] = []
    for item, texts in zip(items, writers.write(items, context.drawing(config, "draw")), strict=True):
        own, reasons = distinct(texts)
        dropped += reasons
        for one in own:
            shown = {RESPONSE: as_shown(one.text, writers)}
            asked.append((item, one.text, ask(item, "criticise", question, shown=shown, response=one.text)))
    drawing = context.drawing(config, "criticise", num_samples=1)
    found = []
    for (item, response, _), texts in zip(
        asked, writers.write([request for *_, request in asked], drawing, judges=True), strict=True
    ):
        read = [(one, None if unusable(one) or one is None else units_of(one.text)) for one in texts]
        dropped += [unusable(one) or UNPARSED for one, units in read if units is None]
        kept = tuple((one.writer, tuple(units)) for one, units in read if one is not None and units is not None)
        if len(kept) < min_votes:
            dropped.append(TOO_FEW)
        else:
            found.append(Criticised(item, response, kept))
    return found, dropped
