"""Pairs that prefer the short: the shortest right response, and longer ones, wrong or right."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field

from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.distinct import distinct_judged
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import OVER_CAP, Judged, judged
from components.synthesize.writers import Writers
from components.tasks.item import Item
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, MARGIN, REJECTED

NO_RIGHT, NOT_LONGER = "no_right", "not_longer"


class LengthPairsConfig(GeneratorConfig):
    """Which longer responses are rejected."""

    kind: ClassVar[Literal["preferences"]] = "preferences"  # type: ignore[assignment]
    factor: float = Field(default=1.5, ge=1)
    """A right response is rejected if it has more than so many times the characters of the chosen one."""
    max_per_prompt: int = Field(default=4, ge=1)
    """Most pairs of a prompt; the longest rejected ones first."""


def length_pairs(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: LengthPairsConfig
) -> Iterator[Made | Dropped]:
    """Yield pairs of an item's shortest right response and each longer one: wrong ones, and right ones of `factor`.

    Source: Kimi k1.5 (arXiv:2501.12599), section 2.4, long2short by DPO: 1.5 times for right ones. Length is that of
    the text. `margin` is how many times longer the rejected one is, less 1.
    """
    for item, found in zip(items, judged(items, writers.write(items, context.drawing(config, "draw"))), strict=True):
        yield from _of_item(item, found, config)


def _of_item(item: Item, found: Sequence[Judged], config: LengthPairsConfig) -> Iterator[Made | Dropped]:
    usable, reasons = distinct_judged(found)
    yield from map(Dropped, reasons)
    right = [one for one in usable if one.kept]
    if not right:
        yield from [Dropped(NO_RIGHT)] * len(usable)
        return
    chosen = min(right, key=lambda one: len(one.text))
    others = [one for one in usable if one is not chosen]
    longer = sorted((one for one in others if _rejected(one, chosen, config)), key=lambda one: -len(one.text))
    yield from (Dropped(one.dropped or NOT_LONGER) for one in others if one not in longer)
    yield from [Dropped(OVER_CAP)] * len(longer[config.max_per_prompt :])
    for one in longer[: config.max_per_prompt]:
        margin = len(one.text) / len(chosen.text) - 1
        pair = {CHOSEN: chosen.text, REJECTED: one.text, MARGIN: margin, LABEL_SOURCE: item.verifier}
        yield Made(item, None, {"quality": chosen.writer, **pair})


def _rejected(one: Judged, chosen: Judged, config: LengthPairsConfig) -> bool:
    """Return whether a response is longer: by any amount where it is wrong, by `factor` where it is right."""
    return len(one.text) > len(chosen.text) * (config.factor if one.kept else 1)
