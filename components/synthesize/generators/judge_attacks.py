"""Responses that a list of principles passes though they are bad, beside good ones: examples for its next edit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from components.contract.artifacts import hash_parts
from components.contract.errors import InputError
from components.synthesize.config import GeneratorConfig, Kind
from components.synthesize.context import GeneratorContext
from components.synthesize.distinct import distinct_judged
from components.synthesize.made import Dropped, Made
from components.synthesize.sifting import OVER_CAP, Judged, judged
from components.synthesize.writers import Writers
from components.tasks.item import ID_DIGITS, Item
from components.tasks.principles import RUBRIC, example, held, list_of, rubric_from, tasks_of
from components.tasks.row_kinds.preferences import CHOSEN, LABEL_SOURCE, REJECTED

CAUGHT, NO_CONTRAST = "caught", "no_contrast"


class JudgeAttacksConfig(GeneratorConfig):
    """Which responses become rows, and how."""

    labelled: ClassVar[bool] = False
    keep: Literal["fooling", "all"] = "fooling"
    """fooling: bad responses that the list passes, and good ones. all: whatever the list says of them."""
    rows: Literal["examples", "pairs"] = "examples"
    """examples: each response with its label, for generator principles. pairs: a good one before a bad one, with the
    list in `data["rubric"]`, for diagnostic principles_auc."""
    max_per_prompt: int = Field(default=1, ge=1)
    """Most good and most bad responses of a prompt, in the order drawn; as many pairs."""
    label_error: float = Field(default=0.0, ge=0, lt=0.5)
    """Probability that an example has the other label, as people's labels have."""

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        """Return labelled, or preferences."""
        return "labelled" if self.rows == "examples" else "preferences"

    @model_validator(mode="after")
    def _pairs_are_right(self) -> JudgeAttacksConfig:
        if self.rows == "pairs" and self.label_error:
            raise InputError("label_error: pairs measure a list, and are labelled by the verifier")
        return self


def judge_attacks(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: JudgeAttacksConfig
) -> Iterator[Made | Dropped]:
    """Yield examples, or pairs, of the responses to each task among the inputs, judged by the inputs' one list.

    Good is what the item's verifier finds right. A bad response that the list does not pass is dropped as `caught`.
    Source: Wei et al. 2025 (arXiv:2508.21476): a generator writes responses that look good and have a flaw, and those
    that pass, beside labelled ones, are what the judge's rules are edited by. Labels there are people's.
    """
    rules, tasks = list_of(context.pool, "generator judge_attacks"), tasks_of(items)
    kept: list[tuple[Item, list[Judged]]] = []
    for item, found in zip(tasks, judged(tasks, writers.write(tasks, context.drawing(config, "draw"))), strict=True):
        own, reasons = distinct_judged(found)
        yield from map(Dropped, reasons)
        kept.append((item, own))
    marks = iter(held(rules, [(item, one.text) for item, own in kept for one in own]))
    rubric = rubric_from(rules).model_dump(mode="json")
    for item, own in kept:
        passed = [all(next(marks)) for _ in own]
        good, bad, caught = _sides(own, passed, config)
        yield from [Dropped(CAUGHT)] * caught
        if config.rows == "pairs":
            yield from _pairs(item, good, bad, rubric, config)
            continue
        for side in (good, bad):
            yield from [Dropped(OVER_CAP)] * len(side[config.max_per_prompt :])
            yield from (_example(item, one, context, config) for one in side[: config.max_per_prompt])


def _sides(
    own: Sequence[Judged], passed: Sequence[bool], config: JudgeAttacksConfig
) -> tuple[list[Judged], list[Judged], int]:
    """Return the good responses, the bad ones that are kept, and how many were caught."""
    good = [one for one in own if one.kept]
    bad = [one for one, passes in zip(own, passed, strict=True) if not one.kept and (passes or config.keep == "all")]
    return good, bad, len(own) - len(good) - len(bad)


def _pairs(
    item: Item, good: Sequence[Judged], bad: Sequence[Judged], rubric: object, config: JudgeAttacksConfig
) -> Iterator[Made | Dropped]:
    pairs = list(zip(good, bad, strict=False))[: config.max_per_prompt]
    yield from [Dropped(OVER_CAP if pairs else NO_CONTRAST)] * (len(good) + len(bad) - 2 * len(pairs))
    row = item.model_copy(update={"data": {**item.data, RUBRIC: rubric}})
    for better, worse in pairs:
        sides = {CHOSEN: better.text, REJECTED: worse.text, LABEL_SOURCE: item.verifier}
        yield Made(row, None, {"quality": worse.writer, **sides})


def _example(item: Item, one: Judged, context: GeneratorContext, config: JudgeAttacksConfig) -> Made:
    flipped = context.rng("label", item.id, one.text).random() < config.label_error
    data = example(item, one.text, good=one.kept != flipped)
    name = f"{item.id}-{hash_parts(item.id, one.text)[:ID_DIGITS]}"  # examples of several rounds stand side by side
    marks = {"quality": one.writer, "label": one.kept != flipped, "flipped": flipped}
    return Made(item.model_copy(update={"id": name, "data": data}), one.text, marks)
