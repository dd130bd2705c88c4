"""A rescore as one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.contract.terminal import short_line
from components.pages.pages import render
from components.rl.rescore.findings import FLIPPED, KINDS

PAGE = Path(__file__).with_name("rescore.html")
MAX_PROMPT = 200


def render_page(found: Mapping[str, Any]) -> str:
    """Return the HTML page of a rescore; all data is escaped, and the page loads nothing."""
    return render(
        PAGE, title="Rescore", found=found, kinds=KINDS, flips=FLIPPED, number=number, share=share, short=short
    )


def number(value: float | None, digits: int = 3) -> str:
    """Return a number for people; "-" for one that is not known."""
    return "-" if value is None else f"{value:.{digits}g}"


def share(part: int, whole: int) -> str:
    """Return a share in percent."""
    return f"{100 * part / whole:.1f} %" if whole else "-"


def short(text: str) -> str:
    """Return the beginning of a text in one line."""
    return short_line(text, MAX_PROMPT)
