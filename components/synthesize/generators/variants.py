"""Other wordings of a prompt with the same answer, kept if solvers agree that the answer is the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.curation.operators.dedup import normalised
from components.synthesize.asking import ask
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.made import Dropped, Made
from components.synthesize.parsing import body, unusable
from components.synthesize.sifting import REPEATED, judged
from components.synthesize.templates import check_template
from components.synthesize.writers import Writers
from components.tasks.item import Item, item_id

UNCHANGED, OUTSIDE = "unchanged", "outside_band"


class VariantsConfig(GeneratorConfig):
    """How variants are asked for, and how often they must be solved."""

    kind = "prompts"
    template: str = "{prompt}\nWrite another problem with the same answer, {answer}."
    """Asks for a variant; {prompt} and {answer} are replaced. A text may put it in <question> tags."""
    num_solutions: int = Field(default=8, ge=0)
    """Solutions that each writer writes to a variant; 0 keeps variants unsolved."""
    solved: tuple[float, float] = (0.125, 1.0)
    """Share of these that must give the item's answer, both ends included: below, the answer has changed or nobody can
    tell; 0.125 to 0.625 also drops what is too easy."""

    @model_validator(mode="after")
    def _is_whole(self) -> VariantsConfig:
        check_template("template", self.template, needs=("prompt",), may=("answer",))
        if not 0 <= self.solved[0] <= self.solved[1] <= 1:
            raise InputError(f"solved: expected 0 <= low <= high <= 1, found {list(self.solved)}")
        return self


def variants(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: VariantsConfig
) -> Iterator[Made | Dropped]:
    """Yield each item's distinct variants whose share of right solutions is in range; answer and verifier stay.

    Liang et al. 2025 (SvS): variational problems from solved ones, checked by the answer of the original.
    """
    texts = writers.write([ask(item, "vary", config.template) for item in items], context.drawing(config, "vary"))
    made: dict[str, tuple[Item, Item, str]] = {}
    for item, written in zip(items, texts, strict=True):
        for one in written:
            reason = unusable(one)
            prompt = body(one.text, "question") if one is not None and not reason else ""
            if not reason and normalised(prompt) == normalised(item.prompt):
                reason = UNCHANGED
            new = item_id(item.domain, prompt, item.answer)
            if not reason and new in made:
                reason = REPEATED
            if reason or one is None:
                yield Dropped(reason or "")
                continue
            variant = item.model_copy(update={"id": new, "prompt": prompt, "messages": ()})
            made[new] = variant, item, one.writer
    yield from _solved(list(made.values()), writers, context, config)


def _solved(
    made: list[tuple[Item, Item, str]], writers: Writers, context: GeneratorContext, config: VariantsConfig
) -> Iterator[Made | Dropped]:
    fresh = [variant for variant, _, _ in made]
    if not config.num_solutions:
        yield from (Made(variant, None, {"of": item.id, "quality": writer}) for variant, item, writer in made)
        return
    drawing = context.drawing(config, "solve", num_samples=config.num_solutions)
    for (variant, item, writer), found in zip(made, judged(fresh, writers.write(fresh, drawing)), strict=True):
        share = sum(one.kept for one in found) / max(1, len(found))
        if config.solved[0] <= share <= config.solved[1]:
            yield Made(variant, None, {"of": item.id, "solved": share, "quality": writer})
        else:
            yield Dropped(OUTSIDE)
