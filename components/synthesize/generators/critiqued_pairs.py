"""Pairs whose sides are followed by a critique, for a reward model that reads the critique before it scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator

from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig, Kind
from components.synthesize.context import GeneratorContext
from components.synthesize.distinct import distinct_judged
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import unusable
from components.synthesize.shown import as_shown
from components.synthesize.sifting import OVER_CAP, Judged, judged
from components.synthesize.templates import check_template
from components.synthesize.writers import Writers
from components.tasks.item import Item
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, MARGIN, REJECTED

NO_CONTRAST = "no_contrast"
Pair = tuple[Item, Judged, Judged, float]
"""An item, its better and its worse response, and the gap of their scores."""


class CritiquedPairsConfig(GeneratorConfig):
    """Which two responses become a pair, and what is asked about each of them."""

    critique: Literal["appended", "none"] = "appended"
    """appended: a side is the response, a line break and its critique. none: the same pairs without critiques, for a
    reward model that scores at once."""
    question: str = "{prompt}\nA response: {response}\nIs it right? Say why, then <answer>right or <answer>wrong."
    """What judges are asked; {prompt} and {response} are replaced."""
    critique_temperature: float = Field(default=0.0, ge=0)
    """Of the judges; `temperature` is that of the writers."""
    min_gap: float = Field(default=0.5, gt=0, le=1)
    """Smallest gap of the scores, from 0 to 1, that the verifier gives the two."""

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """Return preferences."""
        return "preferences"  # type: ignore[return-value]

    @property
    def judges(self) -> bool:  # type: ignore[override]
        """Return whether critiques are asked for."""
        return self.critique == "appended"

    @model_validator(mode="after")
    def _question_is_whole(self) -> CritiquedPairsConfig:
        check_template("question", self.question, needs=("prompt", "response"))
        return self


def critiqued_pairs(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: CritiquedPairsConfig
) -> Iterator[Made | Dropped]:
    """Yield for each item its best and its worst response, each with a critique of it.

    Source: MM-RLHF (arXiv:2502.10391), section 3: a score is read behind prompt, response and critique; critiques are
    given ones in training (judges that know better, such as programs) and the critic's own in use. Of several
    judges the first counts whose critique can be read; where none can the pair is dropped. Equal settings and items
    draw the same pairs with and without critiques.
    """
    pairs: list[Pair] = []
    for item, found in zip(items, judged(items, writers.write(items, context.drawing(config, "draw"))), strict=True):
        pair, dropped = _ends(item, found, config.min_gap)
        yield from map(Dropped, dropped)
        pairs += [pair] if pair else []
    sides = [(item, one.text) for item, better, worse, _ in pairs for one in (better, worse)]
    critiques = _critiques(sides, writers, context, config)
    for number, (item, better, worse, gap) in enumerate(pairs):
        texts, reasons = zip(*critiques[2 * number : 2 * number + 2], strict=True)
        if reason := reasons[0] or reasons[1]:
            yield Dropped(reason)
            continue
        row = {CHOSEN: better.text + texts[0], REJECTED: worse.text + texts[1]}
        yield Made(item, None, {"quality": better.writer, LABEL_SOURCE: item.verifier, MARGIN: gap, **row})


def _ends(item: Item, found: Sequence[Judged], least: float) -> tuple[Pair | None, list[str]]:
    """Return the pair of the first best and the first worst response, and why the others are dropped."""
    kept, dropped = distinct_judged(found)
    if not kept:
        return None, dropped
    best, worst = max(kept, key=lambda one: one.score), min(kept, key=lambda one: one.score)
    if (gap := best.score - worst.score) < least:
        return None, dropped + [NO_CONTRAST] * len(kept)
    return (item, best, worst, gap), dropped + [OVER_CAP] * (len(kept) - 2)


def _critiques(
    sides: Sequence[tuple[Item, str]], writers: Writers, context: GeneratorContext, config: CritiquedPairsConfig
) -> list[tuple[str, str | None]]:
    """Return what is appended to each side, and why it cannot be: a critique is refused, cut, or empty."""
    if config.critique == "none":
        return [("", None)] * len(sides)
    asked = [
        ask(item, "criticise", config.question, shown={"response": as_shown(text, writers)}) for item, text in sides
    ]
    drawing = replace(context.drawing(config, "criticise", num_samples=1), temperature=config.critique_temperature)
    written = writers.write(asked, drawing, judges=True)
    found = []
    for texts in written:
        one = next((one for one in texts if not unusable(one)), texts[0])
        found.append(("" if one is None else f"\n{one.text.strip()}", unusable(one)))
    return found
