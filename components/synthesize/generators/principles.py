"""A judge's list of principles: begun from settings, or edited by what it gets wrong of labelled examples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.synthesize.config import GeneratorConfig
from components.synthesize.context import GeneratorContext
from components.synthesize.edits import edited, errors_of, mask_of
from components.synthesize.made import Made
from components.synthesize.writers import Writers
from components.tasks.item import Item
from components.tasks.principles import Principles, examples_of, held, list_of, list_row
from components.tasks.rubric import Criterion

OWNER = "generator principles"


class PrinciplesConfig(GeneratorConfig):
    """The first list, or what a list may be edited to."""

    kind: ClassVar[Literal["prompts"]] = "prompts"
    writes: ClassVar[bool] = False
    labelled: ClassVar[bool] = False
    start: Principles = ()
    """The first list; the stage needs no inputs then, and `size: 1`."""
    grammar: Principles = ()
    """Principles that may be added to the list among the inputs, or take the place of one. Unset: `start` is given."""
    edits: int = Field(default=1, ge=1)
    """Most edits, one after the other, each the one that mends most errors."""
    most: int = Field(default=10, ge=1)
    """Most principles of a list; one that has as many may only lose or replace some. Released code: 10."""
    min_gain: float = Field(default=0.02, ge=0, le=1)
    """Least share of the examples that an edit must mend, so that a few wrong labels change nothing."""

    @property
    def seeded(self) -> bool:  # type: ignore[override]
        """Return whether it reads a list and examples."""
        return not self.start

    @model_validator(mode="after")
    def _begins_or_edits(self) -> PrinciplesConfig:
        if bool(self.start) == bool(self.grammar):
            raise InputError("start begins a list, and grammar edits one: give one of them")
        return self


def principles(
    items: Sequence[Item], writers: Writers, context: GeneratorContext, *, config: PrinciplesConfig
) -> Iterator[Made]:
    """Yield one row: the list `start`, or the inputs' one list after at most `edits` edits by the inputs' examples.

    Principles of the inputs' list may go, and may come back only if `grammar` has them. Columns: `edit`, what was
    done, `errors_before`, `errors` and `num_examples`.

    Source: Wei et al. 2025 (arXiv:2508.21476) and its released code: a reflector reads the detector's errors, and
    rules are added, improved and removed by them. There a language model does it; this is a greedy search.
    """
    if config.start:
        yield Made(list_row(config.start))
        return
    if not items or items[0].id != context.pool[0].id:  # the first chunk edits by the examples of all
        return
    now, told = list_of(context.pool, OWNER), examples_of(context.pool, OWNER)
    if not told:
        raise InputError(f"{OWNER}: no example among the inputs; connect rows of generator judge_attacks")
    known = _known(now, config.grammar)
    marks = held(list(known.values()), [(item, response) for item, response, _ in told])
    masks = {name: mask_of(column) for name, column in zip(known, zip(*marks, strict=True), strict=True)}
    good, count = mask_of([label for _, _, label in told]), len(told)
    names, edits = tuple(one.name for one in now), list[str]()
    before = errors_of(names, masks, good, count)
    for _ in range(config.edits):
        least = math.ceil(config.min_gain * count)
        edit = edited(names, masks, good, count, least=least, most=config.most)
        if not edit.told:
            break
        names, edits = edit.names, [*edits, edit.told]
    done = {"edit": ", ".join(edits) or "none", "errors_before": before, "num_examples": count}
    row = list_row([known[name] for name in names])
    yield Made(row, None, {**done, "errors": errors_of(names, masks, good, count)})


def _known(now: Sequence[Criterion], grammar: Sequence[Criterion]) -> dict[str, Criterion]:
    """Return all principles by name; InputError where the list and the grammar mean different ones by one name."""
    known = {one.name: one for one in now}
    for one in grammar:
        if known.setdefault(one.name, one) != one:
            raise InputError(f"{OWNER}: principle {one.name} of the inputs' list is another one than that of grammar")
    return known
