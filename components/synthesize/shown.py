"""Texts of writers as they are shown to the next: with no mark in them that a tokenizer reads as control."""

from __future__ import annotations

from components.judges.fencing import without_control
from components.synthesize.writers import Writers


def as_shown(text: str, writers: Writers) -> str:
    """Return a text with the control marks broken: the usual ones, and those of all writers' tokenizers."""
    asked = (*writers.teachers, *writers.judges)
    return without_control(text, [mark for one in asked for mark in getattr(one, "control_marks", ())])
