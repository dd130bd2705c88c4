"""Multiple choice made of another source's items, with a position that gives the right option away as often as asked.

A shortcut to be found: where the right option comes first in most training rows, a policy is right without reading the
question. The same items with another `bias` or `place` say whether it did.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.mutations import mutate
from components.tasks.nested import check_endless
from components.tasks.options import LETTERS, OPTIONS
from components.tasks.seeds import derive_rng
from components.tasks.slots import SOURCE
from components.tasks.source import BadRow, SourceConfig, SourceRequest, SourceRow, SourceRows
from components.tasks.verify import SETTINGS

VERIFIER = "choice"
TRIES = 200
"""Attempts at the wrong options of one item; short answers have few of them."""


class ChoiceSourceConfig(SourceConfig):
    """Whose items, how many options, and where the right one stands."""

    endless: ClassVar[bool] = True
    source: Annotated[OperatorSpec, SOURCE]
    """The source of the questions; one without end. Wrong options are mutations of its answers."""
    options: int = Field(default=3, ge=2, le=len(LETTERS))
    """Options of each item."""
    bias: float | None = Field(default=None, ge=0, le=1)
    """Share of the items whose right option stands at `place`; none: any place equally often."""
    place: int = Field(default=1, ge=1)
    """The place that `bias` prefers, counted from 1."""

    @model_validator(mode="after")
    def _fits(self) -> ChoiceSourceConfig:
        check_endless(self.source, "choice")
        if self.place > self.options:
            raise InputError(f"source choice: place {self.place} of {self.options} options")
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def choice(request: SourceRequest, *, config: ChoiceSourceConfig) -> SourceRows:
    """Make the inner source's items multiple choice; the answer is the right option's letter.

    `data["question"]` and `data["options"]` hold what the prompt was written of (`choice_prompt`), so that the options
    can be asked for in another order; the inner item's own data stay beside them.
    """
    inner: SourceRows = config.source.resolve()(request)
    kept = config.model_dump(mode="json", include={"options", "bias", "place"})
    return SourceRows(
        _rows(inner.rows, config, request.seed), {"source": "choice", "config": kept, "of": dict(inner.origin)}
    )


def choice_prompt(question: str, options: Sequence[str]) -> str:
    """Return the question with its options: `4 + 7? A:11 B:9 C:12`."""
    return " ".join([question.strip(), *(f"{letter}:{text}" for letter, text in zip(LETTERS, options, strict=False))])


def _rows(rows: Iterator[SourceRow | BadRow], config: ChoiceSourceConfig, seed: int) -> Iterator[SourceRow | BadRow]:
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        if row.messages:
            raise InputError(f"{row.where}: source choice makes prompts, and this row holds messages")
        rng = derive_rng(seed, "choice", row.prompt)
        place = _place(config, rng)
        options = _wrong(row, config.options - 1, rng)
        options.insert(place, row.answer)
        kept = {key: value for key, value in row.data.items() if key != SETTINGS}  # they are the inner verifier's
        data: dict[str, Any] = {**kept, "question": row.prompt, OPTIONS: options}
        prompt = choice_prompt(row.prompt, options)
        yield replace(row, id=None, prompt=prompt, answer=LETTERS[place], verifier=VERIFIER, data=data)


def _place(config: ChoiceSourceConfig, rng: random.Random) -> int:
    preferred = config.place - 1
    if config.bias is None:
        return rng.randrange(config.options)
    if rng.random() < config.bias:
        return preferred
    return rng.choice([place for place in range(config.options) if place != preferred])


def _wrong(row: SourceRow, count: int, rng: random.Random) -> list[str]:
    """Return different wrong answers that look like the right one."""
    found: dict[str, None] = {}
    for _ in range(TRIES):
        if len(found) == count:
            return list(found)
        candidate = mutate(row.answer, rng)
        if candidate != row.answer:
            found[candidate] = None
    raise InputError(f"{row.where}: source choice cannot make {count} wrong options of the answer {row.answer[:40]!r}")
