"""Items of another source with their prompts in a template, such as the mark of a mode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import Field, field_validator, model_validator

from components.contract.errors import InputError
from components.contract.operators import OperatorSpec
from components.tasks.nested import check_endless
from components.tasks.slots import SOURCE
from components.tasks.source import BadRow, SourceConfig, SourceRequest, SourceRow, SourceRows

PROMPT = "{prompt}"


class TemplatedConfig(SourceConfig):
    """Whose items, and how they are asked."""

    endless: ClassVar[bool] = True
    source: Annotated[OperatorSpec, SOURCE]
    """The source of the items; one without end."""
    template: str
    """The new prompt; {prompt} is replaced by the item's."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of the items' verifier, beside those that they have."""

    @field_validator("template")
    @classmethod
    def _has_a_place(cls, value: str) -> str:
        if value.count(PROMPT) != 1:
            raise InputError(f"the template needs {PROMPT} once, found {value!r}")
        return value

    @model_validator(mode="after")
    def _known(self) -> TemplatedConfig:
        check_endless(self.source, "templated")
        return self

    def verifiers(self) -> tuple[str, ...] | None:
        """Return those of the inner source, whose items these are."""
        inner = self.source.resolve().config
        return inner.verifiers() if isinstance(inner, SourceConfig) else None


def templated(request: SourceRequest, *, config: TemplatedConfig) -> SourceRows:
    """Ask the items of the inner source by the template: `think: queens 4 not 12`; all else of a row stays."""
    inner: SourceRows = config.source.resolve()(request)
    origin = {"source": "templated", "template": config.template, "of": dict(inner.origin)}
    return SourceRows(_rows(inner.rows, config), origin)


def _rows(rows: Iterator[SourceRow | BadRow], config: TemplatedConfig) -> Iterator[SourceRow | BadRow]:
    before, _, after = config.template.partition(PROMPT)
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        if row.messages:
            raise InputError(f"{row.where}: source templated writes prompts, and this row holds messages")
        yield replace(row, id=None, prompt=f"{before}{row.prompt}{after}", data=_data(row, config.settings))


def _data(row: SourceRow, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {**row.data, "settings": {**row.data.get("settings", {}), **settings}} if settings else row.data
