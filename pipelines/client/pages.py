"""What a notebook shows inline: templates of this room, in which every value is escaped and every mark can be seen."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from components.contract.terminal import visible
from components.pages.pages import render

FOLDER = Path(__file__).parent / "templates"


def page(name: str, **values: Any) -> str:
    """Return the HTML that a template makes of values; control and bidirectional characters are spelled out."""
    return visible(render(FOLDER / name, **values))
