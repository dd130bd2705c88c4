"""Templates of requests: text with {placeholders}, filled in one pass, so that hostile text in a part stays text."""

from __future__ import annotations

from components.tasks.questions import check_question, filled


def fill(template: str, **parts: str) -> str:
    """Return the template with its placeholders replaced; a part that holds a placeholder is not read again."""
    return filled(template, parts)


def check_template(name: str, template: str, *, needs: tuple[str, ...], may: tuple[str, ...] = ()) -> None:
    """Raise InputError if a template lacks a placeholder of `needs`, or has one that nothing fills."""
    check_question(name, template, (*needs, *may), needs=needs, what="template")
