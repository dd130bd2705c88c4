"""Solutions written with a right and a wrong attempt in sight, kept for the prompt alone: self-distilled from hints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field, model_validator

from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import judged, most
from components.synthesize.templates import check_template
from components.synthesize.writers import Writers
from components.tasks.item import Item

NO_CONTRAST = "no_contrast"


class HintedSolutionsConfig(GeneratorConfig):
    """What the hint holds, and what is kept."""

    attempts: int = Field(default=8, ge=2)
    """Attempts that each writer makes at an item without recorded responses of both kinds."""
    template: str = "{prompt}\nA right attempt: {right}\nA wrong attempt: {wrong}\nSolve it with care."
    """The prompt with the hint; {prompt}, {right} and {wrong} are replaced."""
    max_per_prompt: int | None = Field(default=1, ge=1)
    """Most distinct right solutions of a prompt; null keeps all."""
    keep_hint: bool = False
    """Whether a row holds the prompt with the hint, as `teacher_prompt`: what the teacher of a distillation reads."""

    @model_validator(mode="after")
    def _template_is_whole(self) -> HintedSolutionsConfig:
        check_template("template", self.template, needs=("prompt",), may=("right", "wrong", "answer"))
        return self


def hinted_solutions(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: HintedSolutionsConfig
) -> Iterator[Made | Dropped]:
    """Yield right solutions that were written with both attempts in the prompt; rows hold the prompt without them.

    Attempts are those of input `rollouts`, or drawn first. Mitra and Ulukus 2025 (Semantic Soft Bootstrapping).
    """
    pairs = _contrasts(items, writers, context, config)
    hard = [item for item in items if item.id in pairs]
    asked = [
        ask(item, "solve_with_hint", config.template, shown={"right": pairs[item.id][0], "wrong": pairs[item.id][1]})
        for item in hard
    ]
    written = judged(hard, writers.write(asked, context.drawing(config, "solve")))
    found = dict(zip((item.id for item in hard), written, strict=True))
    hints = {item.id: {"teacher_prompt": one.prompt} for item, one in zip(hard, asked, strict=True)}
    for item in items:
        if item.id not in pairs:
            yield Dropped(NO_CONTRAST)
            continue
        yield from (Dropped(one.dropped) for one in found[item.id] if one.dropped)
        chosen, dropped = most([one for one in found[item.id] if one.kept], config.max_per_prompt)
        yield from map(Dropped, dropped)
        extras = {"hinted": True, **(hints[item.id] if config.keep_hint else {})}
        yield from (Made(item, one.text, {"quality": one.writer, **extras}) for one in chosen)


def _contrasts(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, config: HintedSolutionsConfig
) -> dict[str, tuple[str, str]]:
    """Return item id -> a right and a wrong attempt, for the items that have both."""
    found: dict[str, list[tuple[str, bool]]] = {
        item.id: [(one.response, one.right) for one in context.rollouts.get(item.id, ())] for item in items
    }
    rest = [item for item in items if len({right for _, right in found[item.id]}) < 2]
    drawing = context.drawing(config, "attempt", num_samples=config.attempts)
    for item, tried in zip(rest, judged(rest, writers.write(rest, drawing)), strict=True):
        found[item.id] += [(one.text, one.verdict.right) for one in tried if one.verdict and not one.verdict.failed]
    pairs = {}
    for name, attempts in found.items():
        right = next((text for text, is_right in attempts if is_right), None)
        wrong = next((text for text, is_right in attempts if not is_right), None)
        if right is not None and wrong is not None:
            pairs[name] = right, wrong
    return pairs
