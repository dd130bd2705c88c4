"""Conversations with an assistant's answer that people or models preferred: UltraFeedback."""

from __future__ import annotations

from components.contract.errors import InputError
from components.tasks.conversations import read_conversation
from components.tasks.item import UNLABELLED
from components.tasks.published.reading import Reading, Row
from components.tasks.source import SourceRow


def ultrafeedback(where: str, row: Row, reading: Reading) -> SourceRow:
    """Read `chosen`, a conversation that ends with the preferred answer; there is no answer to verify against."""
    found = read_conversation(row.get("chosen"), "chosen")
    if found.response is None or not found.response.strip():
        raise InputError("chosen does not end with an answer")
    score = row.get("score_chosen")
    extras = {"score": float(score)} if isinstance(score, int | float) else {}
    task = {"messages": found.messages} if found.prompt is None else {"prompt": found.prompt}
    return SourceRow(where, **task, response=found.response, verifier=UNLABELLED, extras=extras)
