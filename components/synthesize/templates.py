"""Templates of requests: text with {placeholders}, filled in one pass, so that hostile text in a part stays text."""

from __future__ import annotations

from components.contract.errors import InputError
from components.tasks.questions import PLACEHOLDER, filled


def fill(template: str, **parts: str) -> str:
    """Return the template with its placeholders replaced; a part that holds a placeholder is not read again."""
    return filled(template, parts)


def check_template(name: str, template: str, *, needs: tuple[str, ...], may: tuple[str, ...] = ()) -> None:
    """Raise InputError if a template lacks a placeholder of `needs`, or has one that nothing fills."""
    found = set(PLACEHOLDER.findall(template))
    if missing := [part for part in needs if part not in found]:
        raise InputError(f"{name}: the template lacks {{{missing[0]}}}, without which writers cannot do their work")
    if unknown := sorted(found - {*needs, *may}):
        known = ", ".join(f"{{{part}}}" for part in (*needs, *may))
        raise InputError(f"{name}: nothing fills {{{unknown[0]}}} of the template; there are {known}")
