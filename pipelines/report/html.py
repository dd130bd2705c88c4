"""Small pieces of HTML: everything that comes from data is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from pipelines.report.collect import Estimate


class Markup(str):
    """Text that is HTML already; all other text is escaped."""

    __slots__ = ()


def markup(text: object) -> str:
    """Return text as HTML."""
    return text if isinstance(text, Markup) else escape(str(text))


def table(head: Sequence[object], rows: Iterable[Sequence[object]], *, numbers_from: int = 1) -> Markup:
    """Return a table; cells from column `numbers_from` on are right-aligned figures."""

    def cells(tag: str, row: Sequence[object]) -> str:
        return "".join(
            f"<{tag}{' class=number' if index >= numbers_from else ''}>{markup(cell)}</{tag}>"
            for index, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    top = f"<thead><tr>{cells('th', head)}</tr></thead>"
    return Markup(f'<div class="scroll"><table>{top}<tbody>{body}</tbody></table></div>')


def section(title: str, *content: str, lead: str = "") -> Markup:
    """Return a titled section, or nothing when it has no content."""
    shown = "".join(item for item in content if item)
    if not shown:
        return Markup("")
    anchor = "".join(mark if mark.isalnum() else "-" for mark in title.lower())
    intro = f"<p class=lead>{markup(lead)}</p>" if lead else ""
    return Markup(f'<section id="{anchor}"><h2>{escape(title)}</h2>{intro}{shown}</section>')


def figure(chart: str, caption: str) -> Markup:
    """Return a chart with its caption, or nothing without a chart."""
    return Markup(f"<figure>{chart}<figcaption>{escape(caption)}</figcaption></figure>" if chart else "")


def grid(figures: Iterable[str]) -> Markup:
    """Return figures side by side, as many as fit."""
    shown = "".join(figures)
    return Markup(f'<div class="figures">{shown}</div>' if shown else "")


def percent(estimate: Estimate | None, *, digits: int = 1) -> Markup:
    """Return a share in per cent with its interval in small type."""
    if estimate is None:
        return Markup("&ndash;")
    text = f"{100 * estimate.value:.{digits}f}"
    if estimate.low is not None and estimate.high is not None:
        text += f" <small>[{100 * estimate.low:.{digits}f}, {100 * estimate.high:.{digits}f}]</small>"
    return Markup(text)


def short(digest: str) -> Markup:
    """Return a digest's first characters, the whole of it as a tooltip."""
    return Markup(f'<code title="{escape(digest)}">{escape(digest[:12])}</code>')


def duration(seconds: float) -> str:
    """Return seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
