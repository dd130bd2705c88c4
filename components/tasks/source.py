"""The request to a source, and the rows it returns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import model_validator

from components.contract.errors import InputError
from components.contract.messages import Message, transcript
from components.contract.params import Params
from components.tasks.item import Item, item_id


class SourceConfig(Params):
    """Base of the configs of sources."""

    endless: ClassVar[bool] = False
    """Whether the source generates as many rows as requested."""
    paths: ClassVar[tuple[str, ...]] = ()
    """Keys that name files; relative paths are relative to the recipe."""

    @model_validator(mode="after")
    def _ranges_are_ordered(self) -> Self:
        fields = type(self).model_fields
        for low in fields:
            high = "most" if low == "least" else low.replace("min_", "max_", 1)
            if high == low or high not in fields or not low.startswith(("min_", "least")):
                continue
            least, most = getattr(self, low), getattr(self, high)
            if least is not None and most is not None and least > most:
                raise InputError(f"{low} {least} is above {high} {most}")
        return self

    def verifiers(self) -> tuple[str, ...] | None:
        """Return the verifiers that rows may name beside those of connected datasets; None if only the rows know."""
        return None


@dataclass(frozen=True)
class SourceRequest:
    """What a stage passes to a source."""

    seed: int
    """For sources that generate rows; the stage's seed, which a source's own `seed` replaces."""
    limit: int
    """Most rows that will be drawn."""
    scratch: Path
    """A private folder for downloads."""
    datasets: tuple[Path, ...] = ()
    """Folders of the datasets that are connected to the stage."""


@dataclass(frozen=True)
class SourceRow:
    """One row before curation: a verifiable prompt, perhaps with a response, or plain text."""

    where: str
    """Its origin, for messages: "train.jsonl:17"."""
    prompt: str = ""
    answer: str = ""
    verifier: str = "exact"
    data: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    domain: str | None = None
    messages: tuple[Message, ...] = ()
    """A conversation in place of the prompt; see `Item.messages`."""
    response: str | None = None
    turns: tuple[str, ...] = ()
    """With a response: the policy's turns before it, where `messages` leave them open."""
    text: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)
    """Further fields that stay with the row, such as a pass rate measured earlier."""

    @classmethod
    def of(cls, item: Item, where: str, **more: Any) -> SourceRow:
        """Return the row that asks an item; `more` are fields that an item does not have, such as its response."""
        return cls(
            where,
            prompt=item.prompt,
            messages=item.messages,
            answer=item.answer,
            verifier=item.verifier,
            data=item.data,
            id=item.id,
            domain=item.domain,
            **more,
        )

    def item(self, domain: str) -> Item:
        """Return the row's prompt as an item of `domain`, with an id derived from its content if it has none."""
        return Item(
            id=self.id or item_id(domain, self.messages or self.prompt, self.answer),
            domain=domain,
            prompt=transcript(self.messages) if self.messages else self.prompt,
            messages=self.messages,
            answer=self.answer,
            verifier=self.verifier,
            data=dict(self.data),
        )


@dataclass(frozen=True)
class BadRow:
    """A row that could not be read, from a source configured to skip such rows."""

    where: str
    problem: str
    reason: str = "bad_row"
    """What it is counted as among the dropped rows."""


@dataclass(frozen=True)
class SourceRows:
    """An opened source."""

    rows: Iterator[SourceRow | BadRow]
    origin: Mapping[str, Any]
    """Facts for the dataset card: names, digests, versions, seeds. No times, hosts or absolute paths."""
