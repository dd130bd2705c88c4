"""Right responses of the writers: rejection sampling fine-tuning, STaR with rationalisation, and ReST's growth."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from pydantic import Field, model_validator

from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import Judged, judged, most
from components.synthesize.templates import check_template, fill
from components.synthesize.writers import Writers
from components.tasks.item import Item

HINT = "{prompt}\n(hint: the answer is {answer})"


class RejectionConfig(GeneratorConfig):
    """Which right responses are kept."""

    max_per_prompt: int | None = Field(default=4, ge=1)
    """Most distinct right responses of a prompt; null keeps all."""
    prefer: Literal["first", "shortest"] = "first"
    """Which are kept where there are more: the first drawn, or those with the fewest characters."""
    rationalise: bool = False
    """STaR: ask again, with the answer as a hint, for prompts that got no right response; rows hold the prompt without
    it."""
    hint: str = HINT
    """The prompt with its answer, for `rationalise`; {prompt} and {answer} are replaced."""

    @model_validator(mode="after")
    def _hint_is_whole(self) -> RejectionConfig:
        check_template("hint", self.hint, needs=("prompt", "answer"))
        return self


def rejection(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: RejectionConfig
) -> Iterator[Made | Dropped]:
    """Yield the right, finished and distinct responses to each item, at most `max_per_prompt` of them.

    Yuan et al. 2023 (RFT), Zelikman et al. 2022 (STaR: `rationalise`), Gulcehre et al. 2023 (ReST).
    """
    drawn = judged(items, writers.write(items, context.drawing(config, "draw")))
    hinted = _rationalised(items, drawn, writers, context, config) if config.rationalise else {}
    for item, responses in zip(items, drawn, strict=True):
        yield from _rows(item, responses, config, {})
        yield from _rows(item, hinted.get(item.id, ()), config, {"rationalised": True})


def _rationalised(
    items: Sequence[Item],
    drawn: Sequence[Sequence[Judged]],
    writers: Writers,
    context: GeneratorContext,
    config: RejectionConfig,
) -> dict[str, list[Judged]]:
    """Return item id -> responses to the prompt with its answer, for items that nobody answered right."""
    hard = [item for item, found in zip(items, drawn, strict=True) if not any(one.kept for one in found)]
    asked = [
        item.model_copy(update={"prompt": fill(config.hint, prompt=item.prompt, answer=item.answer), "messages": ()})
        for item in hard
    ]
    found = judged(hard, writers.write(asked, context.drawing(config, "rationalise")))
    return {item.id: texts for item, texts in zip(hard, found, strict=True)}


def _rows(
    item: Item, responses: Iterable[Judged], config: RejectionConfig, marks: dict[str, bool]
) -> Iterator[Made | Dropped]:
    right = []
    for one in responses:
        if one.dropped:
            yield Dropped(one.dropped)
        else:
            right.append(one)
    chosen, dropped = most(right, config.max_per_prompt, shortest=config.prefer == "shortest")
    yield from map(Dropped, dropped)
    for one in chosen:
        yield Made(item, one.text, {"quality": one.writer, **marks})
