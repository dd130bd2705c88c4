"""Items of another source with a solution in the prompt: exercises in rewriting what an expert wrote."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import field_validator, model_validator

from components.contract.errors import InputError
from components.contract.operators import Bound, OperatorSpec
from components.tasks.nested import check_endless
from components.tasks.seeds import derive_rng
from components.tasks.slots import DEMONSTRATOR, SOURCE
from components.tasks.source import BadRow, SourceConfig, SourceRequest, SourceRow, SourceRows

PROMPT, SOLUTION = "{prompt}", "{solution}"


def guided_prompt(template: str, prompt: str, solution: str) -> str:
    """Return the template with the prompt and the solution in their places."""
    before, _, after = template.partition(PROMPT)
    return before.replace(SOLUTION, solution) + prompt + after.replace(SOLUTION, solution)


def check_template(template: str) -> str:
    """Return the template; raise InputError unless it has placeholders for the prompt and the solution."""
    if PROMPT not in template or SOLUTION not in template:
        raise InputError(f"the template needs {PROMPT} and {SOLUTION}, found {template!r}")
    return template


class GuidedSourceConfig(SourceConfig):
    """Whose items, whose solutions, and how they are shown."""

    endless: ClassVar[bool] = True
    source: Annotated[OperatorSpec, SOURCE]
    """The source of the items; one without end."""
    expert: Annotated[OperatorSpec, DEMONSTRATOR] = OperatorSpec(name="gold")
    """The demonstrator that writes the solution."""
    template: str = "{prompt}\nSolution: {solution}\nRewrite it in your own words."
    """The new prompt."""

    @field_validator("template")
    @classmethod
    def _complete(cls, value: str) -> str:
        return check_template(value)

    @model_validator(mode="after")
    def _known(self) -> GuidedSourceConfig:
        check_endless(self.source, "guided")
        self.expert.resolve()
        return self

    def verifiers(self) -> tuple[str, ...] | None:
        """Return those of the inner source, whose items these are."""
        inner = self.source.resolve().config
        return inner.verifiers() if isinstance(inner, SourceConfig) else None


def guided(request: SourceRequest, *, config: GuidedSourceConfig) -> SourceRows:
    """Make the items of the inner source with the expert's solution in their prompts; answers and verifiers stay."""
    source, expert = config.source.resolve(), config.expert.resolve()
    inner: SourceRows = source(request)
    origin = {"source": "guided", "expert": config.expert.name, "template": config.template, "of": dict(inner.origin)}
    return SourceRows(_rows(inner.rows, expert, config, request.seed), origin)


def _rows(
    rows: Iterator[SourceRow | BadRow], expert: Bound, config: GuidedSourceConfig, seed: int
) -> Iterator[SourceRow | BadRow]:
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        if row.messages:
            raise InputError(f"{row.where}: source guided rewrites prompts, and this row holds messages")
        item = row.item(row.domain or "guided")
        solution = expert(item, derive_rng(seed, "guided", item.id))
        yield replace(row, id=None, prompt=guided_prompt(config.template, row.prompt, solution))
