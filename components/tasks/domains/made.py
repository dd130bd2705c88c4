"""Rows that are made without end: one stream from a seed, split by what a task is about rather than by its prompt."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from pydantic import Field, model_validator

from components.contract.artifacts import hash_parts
from components.contract.errors import InputError
from components.contract.params import check_part
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows

SPAN = 1 << 32
MAX_TRIES = 20_000
"""Draws for one row: more than a part of one thousandth needs."""
HIDDEN = {"seed"}


class MadeConfig(SourceConfig):
    """What all sources of executable domains can be told."""

    endless: ClassVar[bool] = True
    part: tuple[float, float] = (0.0, 1.0)
    """Range of a hash of what is asked for (the behaviour of a program, the function of a circuit) that rows are of:
    parts that do not overlap share no task, however it is worded. `[0, 0.2]` to evaluate on, `[0.2, 1]` to train on."""
    seed: int | None = Field(default=None)
    """Seed of the rows; the stage's own when none is given."""

    @model_validator(mode="after")
    def _part_is_a_range(self) -> MadeConfig:
        check_part("part", self.part)
        return self

    def check_order(self, source: str, *pairs: tuple[str, str]) -> None:
        """Raise InputError for a pair of keys of which the first is above the second."""
        for low, high in pairs:
            least, most = getattr(self, low), getattr(self, high)
            if least > most:
                raise InputError(f"source {source}: {low} {least} is above {high} {most}")


@dataclass(frozen=True)
class Made:
    """One task as a domain draws it."""

    key: str
    """What is asked for, without its wording: tasks with one key lie in one part."""
    prompt: str
    answer: str
    data: Mapping[str, Any] = field(default_factory=dict)


def made_rows(
    name: str,
    request: SourceRequest,
    config: MadeConfig,
    verifier: str,
    draw: Callable[[random.Random], Made | None],
) -> SourceRows:
    """Return rows of `draw` without end, those of the config's part; a draw of None is drawn again.

    Raises InputError, while rows are read, where MAX_TRIES draws give none.
    """
    seed = request.seed if config.seed is None else config.seed
    origin = {"source": name, "seed": seed, "config": config.model_dump(mode="json", exclude=HIDDEN)}
    return SourceRows(_rows(name, request.limit, config, verifier, draw, derive_rng(seed, name)), origin)


def place_of(name: str, key: str) -> float:
    """Return the place of a task in [0, 1), which does not depend on seeds."""
    return int(hash_parts("part", name, key)[:8], 16) / SPAN


def _rows(
    name: str,
    limit: int,
    config: MadeConfig,
    verifier: str,
    draw: Callable[[random.Random], Made | None],
    rng: random.Random,
) -> Iterator[SourceRow]:
    low, high = config.part
    for index in range(limit):
        for _ in range(MAX_TRIES):
            made = draw(rng)
            if made is not None and low <= place_of(name, made.key) < high:
                break
        else:
            raise InputError(f"source {name}: {MAX_TRIES} draws gave no task in part {[low, high]}; widen its config")
        yield SourceRow(
            f"{name}[{index}]", prompt=made.prompt, answer=made.answer, verifier=verifier, data=dict(made.data)
        )
