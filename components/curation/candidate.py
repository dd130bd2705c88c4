"""Candidate: a row during curation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from components.contract.errors import InputError
from components.tasks.item import Item, text_id
from components.tasks.source import SourceRow


@dataclass(frozen=True)
class Candidate:
    """A verifiable item with or without a response, or plain text without an item."""

    id: str
    domain: str
    source: int
    """Position of its source in the recipe."""
    item: Item | None = None
    response: str | None = None
    turns: tuple[str, ...] = ()
    """With a response: the text of the policy's earlier turns."""
    text: str | None = None
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def content(self) -> str:
        """Return the text to compare with other rows and with evaluation sets: the text, or the prompt."""
        return self.text if self.text is not None else self._item.prompt

    @property
    def questions(self) -> tuple[str, ...]:
        """Return the content of the user's messages; empty for a prompt or a text."""
        messages = self.item.messages if self.item else ()
        return tuple(message.content or "" for message in messages if message.role == "user")

    @property
    def _item(self) -> Item:
        assert self.item is not None, "a draft holds an item or a text"
        return self.item

    def with_extras(self, **extras: Any) -> Candidate:
        """Return the draft with additional fields for its row."""
        return replace(self, extras={**self.extras, **extras})


class RowCheck(Protocol):
    """One reason to drop rows."""

    def reject(self, draft: Candidate) -> str | None:
        """Return the reason to drop the draft, or None."""
        ...

    def keep(self, draft: Candidate) -> None:
        """Record a draft that passed all checks."""
        ...


def candidate_of(row: SourceRow, source: int, domain: str | None) -> Candidate:
    """Return the draft of a source's row; `domain` is the recipe's, which takes precedence over the row's own.

    Raises InputError when neither names a domain.
    """
    domain = domain or row.domain
    if not domain:
        raise InputError(f"{row.where}: no domain; set `domain` of the source, or its columns.domain")
    if row.text is not None:
        identifier = row.id or text_id(domain, row.text)
        return Candidate(identifier, domain, source, text=row.text, extras=row.extras)
    item = row.item(domain)
    return Candidate(item.id, domain, source, item=item, response=row.response, turns=row.turns, extras=row.extras)
