"""Item: one prompt with the answer that a verifier checks responses against."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contract.artifacts import hash_parts
from components.contract.errors import InputError

ID_DIGITS = 12


class Item(BaseModel):
    """One verifiable prompt. Rows of prompts, demonstrations and rollouts all hold these fields."""

    model_config = ConfigDict(frozen=True, extra="ignore", use_attribute_docstrings=True)

    id: str = Field(min_length=1)
    domain: str = Field(min_length=1)
    prompt: str
    answer: str
    """The reference answer, as the verifier reads it."""
    verifier: str
    """Name in the operator slot "verifier"."""
    data: dict[str, Any] = Field(default_factory=dict)
    """What the verifier needs beside the answer; JSON only. `data["settings"]` holds config keys of the verifier."""

    def row(self) -> dict[str, Any]:
        """Return the item as a row of a Dataset artifact of kind "prompts"."""
        return self.model_dump()


def item_id(domain: str, prompt: str, answer: str) -> str:
    """Return an identifier made of content only, so that one prompt has one id in every dataset and ledger."""
    return f"{domain}-{hash_parts(domain, prompt, answer)[:ID_DIGITS]}"


def item_from_row(row: Mapping[str, Any], where: str) -> Item:
    """Return the item of a row of prompts, demonstrations or rollouts (whose id is called `prompt_id`).

    Raises InputError that begins with `where` when a field is missing or of the wrong type.
    """
    fields = row if "id" in row or "prompt_id" not in row else {**row, "id": row["prompt_id"]}
    try:
        return Item.model_validate(fields)
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise InputError(f"{where}: not a row of prompts: {problems}") from error
