"""Plain texts with rationales between their parts, kept where they make the next part more likely."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from pydantic import Field, model_validator

from components.contract.regular import RegularExpression
from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import body, unusable
from components.synthesize.templates import check_template, fill
from components.synthesize.writers import Writers
from components.tasks.item import Item

NO_GAIN, TOO_SHORT, NO_RATIONALE, UNSCORED = "no_gain", "too_short", "no_rationale", "unscored"
Place = tuple[str, str, str]
"""Of a text: before a place, the part behind it, and what stood between them."""


class InsertRationalesConfig(GeneratorConfig):
    """Where rationales go, and what they must be good for."""

    kind = "corpus"
    labelled = False
    between: RegularExpression = Field(default=r"\n", min_length=1)
    """Regular expression of what stands between two parts of a text."""
    places: int = Field(default=1, ge=1)
    """Places of a text that get a rationale, drawn by chance; each text becomes one row."""
    template: str = "{before}\nWhat has to come next, and why?"
    """Asks for a rationale; {before} is replaced by the text up to the place. It may be put in <think> tags."""
    wrap: str = "<think>{rationale}</think>"
    """The rationale in the text."""
    min_gain: float | None = None
    """Nats a token by which a rationale must raise the mean log-probability of the part behind it, under the first
    model of input `scorers`; unset, the first rationale is taken without asking."""

    @property
    def scorers(self) -> bool:  # type: ignore[override]
        """Return whether a scorer is asked."""
        return self.min_gain is not None

    @model_validator(mode="after")
    def _is_whole(self) -> InsertRationalesConfig:
        check_template("template", self.template, needs=("before",))
        check_template("wrap", self.wrap, needs=("rationale",))
        return self


def insert_rationales(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: InsertRationalesConfig
) -> Iterator[Made | Dropped]:
    """Yield each text with rationales at some of its places; a text that gets none is dropped as no_rationale.

    Of several rationales for a place the one with the largest gain is taken. Zhang et al. 2025 (RA3).
    """
    for item in items:
        parts = _parts(item.prompt, config.between)
        if len(parts) < 2:
            yield Dropped(TOO_SHORT)
            continue
        rng = context.rng("places", item.id)
        chosen = sorted(rng.sample(range(1, len(parts)), min(config.places, len(parts) - 1)))
        inserted: dict[int, str] = {}
        asked = [_request(item, parts, at, config) for at in chosen]
        drawing = context.drawing(config, f"rationale {item.id}")
        for at, written in zip(chosen, writers.write(asked, drawing), strict=True):
            texts = []
            for one in written:
                if (reason := unusable(one)) or one is None:
                    yield Dropped(reason or "")
                else:
                    texts.append(body(one.text, "think"))
            best, dropped = _best(parts, at, texts, writers, config)
            yield from map(Dropped, dropped)
            if best is not None:
                inserted[at] = fill(config.wrap, rationale=best)
        if inserted:
            yield Made(
                item.model_copy(update={"prompt": _joined(parts, inserted)}), None, {"rationales": len(inserted)}
            )
        else:
            yield Dropped(NO_RATIONALE)


def _parts(text: str, between: str) -> list[tuple[str, str]]:
    """Return the parts of a text, each with what stands before it; joined they are the text."""
    found, start, gap = [], 0, ""
    for match in re.finditer(between, text):
        if match.start() > start:
            found.append((gap, text[start : match.start()]))
            gap, start = match[0], match.end()
        elif match.end() > match.start():
            gap, start = gap + match[0], match.end()
    if start < len(text):
        found.append((gap, text[start:]))
    return found


def _joined(parts: Sequence[tuple[str, str]], inserted: dict[int, str]) -> str:
    return "".join(f"{gap}{inserted.get(at, '')}{text}" for at, (gap, text) in enumerate(parts))


def _request(item: Item, parts: Sequence[tuple[str, str]], at: int, config: InsertRationalesConfig) -> Item:
    before = _joined(parts[:at], {})
    return ask(item, "rationale", config.template, shown={"before": before}, behind=parts[at][1])


def _best(
    parts: Sequence[tuple[str, str]], at: int, texts: Sequence[str], writers: Writers, config: InsertRationalesConfig
) -> tuple[str | None, list[str]]:
    """Return the rationale to take at a place, if any, and why others are dropped."""
    if config.min_gain is None or not texts:
        return (texts[0] if texts else None), ["over_cap"] * max(0, len(texts) - 1)
    before, (gap, part) = _joined(parts[:at], {}), parts[at]
    wrapped = [fill(config.wrap, rationale=text) for text in texts]
    pairs = [(before + gap, part), *((before + gap + text, part) for text in wrapped)]
    plain, *scored = writers.scorers[0].score(pairs)
    if plain is None:
        return None, [UNSCORED] * len(texts)
    gains = [None if one is None else one.mean - plain.mean for one in scored]
    best = max((at for at, gain in enumerate(gains) if gain is not None), key=lambda at: gains[at] or 0.0, default=None)
    taken = best if best is not None and (gains[best] or 0.0) >= config.min_gain else None
    dropped = [UNSCORED if gain is None else NO_GAIN for at, gain in enumerate(gains) if at != taken]
    return (None if taken is None else texts[taken]), dropped
