"""Items of a source with the steps of a worked solution: what exercises about reasoning are made of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.contract.regular import RegularExpression
from components.tasks.answers import ANSWER_OPEN, THINK_CLOSE
from components.tasks.nested import check_endless
from components.tasks.seeds import derive_rng
from components.tasks.slots import DEMONSTRATOR, SOURCE
from components.tasks.source import BadRow, SourceConfig, SourceRequest, SourceRow, SourceRows

THINK_OPEN = "<think>"
SPARE = 8
"""The inner source may be asked for so many times the rows: solutions with too few steps make no exercise."""


class WorkedConfig(SourceConfig):
    """Whose items, who works them out, and where a step ends."""

    endless: ClassVar[bool] = True
    source: Annotated[OperatorSpec, SOURCE]
    """The source of the items; one without end."""
    expert: Annotated[OperatorSpec, DEMONSTRATOR] = OperatorSpec(name="recorded")
    """The demonstrator that works them out; `recorded` takes the solution of the item's row."""
    between: RegularExpression = Field(default=r"\s+", min_length=1)
    """Regular expression of what stands between two steps."""

    @model_validator(mode="after")
    def _known(self) -> WorkedConfig:
        check_endless(self.source, "of worked solutions")
        self.expert.resolve()
        return self


@dataclass(frozen=True)
class Worked:
    """An item's row and the steps of its solution."""

    row: SourceRow
    steps: tuple[str, ...]


def worked(request: SourceRequest, config: WorkedConfig, label: str) -> tuple[Iterator[Worked | BadRow], SourceRows]:
    """Return the items of the inner source with at least two steps, and the inner source as it was opened."""
    inner: SourceRows = config.source.resolve()(replace(request, limit=request.limit * SPARE))
    return _worked(inner.rows, config, request.seed, label), inner


def thought_of(solution: str) -> str:
    """Return a solution without its marks and without its final answer."""
    thought, _, _ = solution.rpartition(ANSWER_OPEN)
    return (thought or solution).removeprefix(THINK_OPEN).removesuffix(THINK_CLOSE).strip()


def _worked(
    rows: Iterator[SourceRow | BadRow], config: WorkedConfig, seed: int, label: str
) -> Iterator[Worked | BadRow]:
    expert = config.expert.resolve()
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        if row.messages:
            raise InputError(f"{row.where}: source {label} rewrites prompts, and this row holds messages")
        item = row.item(row.domain or label)
        written = expert(item, derive_rng(seed, label, "expert", item.id))
        if not isinstance(written, str):
            raise InputError(f"{row.where}: source {label} needs one response, and {config.expert.name} wrote turns")
        steps = tuple(step for step in re.split(config.between, thought_of(written)) if step and step.strip())
        if len(steps) > 1:
            yield Worked(row, steps)
