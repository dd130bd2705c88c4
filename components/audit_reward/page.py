"""The audit as one self-contained page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from components.audit_reward.place import PAGE
from components.contract.terminal import short_line
from components.pages.pages import render

MAX_EXAMPLE = 160


def render_page(audit: Mapping[str, Any]) -> str:
    """Return the HTML page of an audit; all data is escaped, and the page loads nothing."""
    return render(PAGE, title="Audit of a reward", audit=audit, show=show, short=short)


def show(entry: Mapping[str, Any] | None) -> str:
    """Return a mean reward with its interval: "0.62 [0.55, 0.70]"."""
    if entry is None:
        return "-"
    value = f"{entry['value']:.3g}"
    return f"{value} [{entry['low']:.3g}, {entry['high']:.3g}]" if "low" in entry and "high" in entry else value


def short(text: str) -> str:
    """Return the beginning of a text in one line."""
    return short_line(text, MAX_EXAMPLE)
