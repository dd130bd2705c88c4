"""Content of a report page as plain data: page.html renders each kind and escapes every value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from pipelines.report.sample_content import SampleBrowser
from pipelines.report.svg import tone

if TYPE_CHECKING:
    from markupsafe import Markup

    from pipelines.report.evaluations import Estimate

NOTHING = "\u2013"
"""Placeholder in a table without a value."""


@dataclass(frozen=True)
class Value:
    """A cell with a number and its interval in small type."""

    kind: ClassVar = "value"
    text: str
    interval: str = ""


@dataclass(frozen=True)
class Strong:
    """A cell in bold."""

    kind: ClassVar = "strong"
    text: str


@dataclass(frozen=True)
class Written:
    """A cell with text verbatim, line by line."""

    kind: ClassVar = "written"
    text: str


@dataclass(frozen=True)
class Digests:
    """A cell with digests, each shown by its first characters after its name, if it has one."""

    kind: ClassVar = "digests"
    named: tuple[tuple[str, str], ...]
    """(name, digest)."""


@dataclass(frozen=True)
class Link:
    """A cell that leads to a section of the page, by its title."""

    kind: ClassVar = "link"
    text: str
    section: str

    @property
    def anchor(self) -> str:
        """Return the section's link target."""
        return anchor(self.section)


Cell = str | int | Value | Strong | Written | Digests | Link


@dataclass(frozen=True)
class Rows:
    """A table; cells from column `numbers_from` on are right-aligned figures."""

    kind: ClassVar = "rows"
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    numbers_from: int = 1


@dataclass(frozen=True)
class Heading:
    """A heading within a section, with the digest of its subject, if any."""

    kind: ClassVar = "heading"
    text: str
    digest: str = ""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph: plain, a `lead`, a `failure`, or what is `waiting` for a person."""

    kind: ClassVar = "paragraph"
    text: str
    style: str = ""
    of: str = ""


@dataclass(frozen=True)
class Verbatim:
    """Verbatim text, below its title if it has one."""

    kind: ClassVar = "verbatim"
    text: str
    title: str = ""


@dataclass(frozen=True)
class Drawing:
    """A chart without a caption that may be wider than the page."""

    kind: ClassVar = "drawing"
    chart: Markup


@dataclass(frozen=True)
class Figure:
    """A chart with its caption."""

    kind: ClassVar = "figure"
    chart: Markup
    caption: str = ""
    narrow: Markup | str = ""
    """The same for a page that is too narrow for the chart; without it the chart shrinks."""


@dataclass(frozen=True)
class Measure:
    """A value by name, and its chart below; without a chart there is nothing to draw."""

    name: str
    value: Cell
    chart: Markup | str = ""


@dataclass(frozen=True)
class Measures:
    """Values one below the other with charts on one scale, whose numbers are `axis`."""

    kind: ClassVar = "measures"
    caption: str
    rows: Sequence[Measure]
    axis: Markup


@dataclass(frozen=True)
class Figures:
    """Charts side by side, as many as fit."""

    kind: ClassVar = "figures"
    figures: Sequence[Figure | Measures]


@dataclass(frozen=True)
class Legend:
    """Names of lines with their colours."""

    kind: ClassVar = "legend"
    names: Sequence[tuple[str, int]]

    @property
    def keys(self) -> list[tuple[str, str]]:
        """Return each name with the classes of its line."""
        return [(name, tone(colour)) for name, colour in self.names]


@dataclass(frozen=True)
class Card:
    """A group of related parts."""

    kind: ClassVar = "card"
    parts: Sequence[Part]


Part = Rows | Heading | Paragraph | Verbatim | Drawing | Figure | Measures | Figures | Legend | Card | SampleBrowser


@dataclass(frozen=True)
class PageSection:
    """A titled section; without parts it is not shown."""

    title: str
    parts: Sequence[Part]
    lead: str = ""

    @property
    def anchor(self) -> str:
        """Return the section's link target."""
        return anchor(self.title)


def anchor(title: str) -> str:
    """Return the link target of a section."""
    return "".join(mark if mark.isalnum() else "-" for mark in title.lower())


def legend(names: Sequence[str]) -> Legend:
    """Return the legend of lines, coloured in order."""
    return Legend([(name, index) for index, name in enumerate(names)])


def share(estimate: Estimate | None, *, digits: int = 1) -> Cell:
    """Return a share in per cent with its interval."""
    return number(estimate, digits=digits, scale=100)


def number(estimate: Estimate | None, *, digits: int, scale: float = 1) -> Cell:
    """Return a number with its interval."""
    if estimate is None:
        return NOTHING
    text = f"{scale * estimate.value:.{digits}f}"
    if estimate.low is None or estimate.high is None:
        return Value(text)
    return Value(text, f"[{scale * estimate.low:.{digits}f}, {scale * estimate.high:.{digits}f}]")


def duration(seconds: float) -> str:
    """Return a readable duration."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    minutes = seconds / 60
    return f"{minutes:.1f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
