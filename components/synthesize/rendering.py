"""Kept candidates as the rows of the artifact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from components.contract.messages import written
from components.curation.candidate import Candidate
from components.curation.output import unique_id
from components.synthesize.config import Kind


def render_rows(drafts: Sequence[Candidate], kind: Kind) -> Iterator[dict[str, Any]]:
    """Yield one row per candidate in the layout of its kind, each with a unique id."""
    ids: set[str] = set()
    for draft in drafts:
        yield {**_row(draft, kind), "id": unique_id(draft.id, ids)}


def _row(draft: Candidate, kind: Kind) -> dict[str, Any]:
    if draft.item is None:
        return {"domain": draft.domain, "text": draft.text, **draft.extras}
    row = {**draft.item.row(), **draft.extras}
    if kind == "prompts" or draft.response is None:
        return row
    if kind == "labelled":
        return {**row, "completion": draft.response}
    return {**row, **written((*draft.turns, draft.response))}
