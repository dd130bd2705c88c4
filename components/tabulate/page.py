"""The table as one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.pages.pages import render
from components.tabulate.place import PAGE


def render_page(table: Mapping[str, Any]) -> str:
    """Return the HTML page of a table; all data is escaped, and the page loads nothing."""
    template: Path = PAGE
    return render(template, title="Table of arms", table=table, show=show, change=change)


def show(entry: Mapping[str, Any] | None) -> str:
    """Return a share in per cent with its interval: "41.2 [38.0, 44.4]"."""
    return _text(entry, sign="")


def change(entry: Mapping[str, Any] | None) -> str:
    """Return a difference in points with its sign: "+3.1 [0.4, 5.8]"."""
    return _text(entry, sign="+")


def _text(entry: Mapping[str, Any] | None, *, sign: str) -> str:
    if entry is None:
        return "-"
    value = f"{100 * entry['value']:{sign}.1f}"
    if "low" not in entry or "high" not in entry:
        return value
    return f"{value} [{100 * entry['low']:{sign}.1f}, {100 * entry['high']:{sign}.1f}]"
