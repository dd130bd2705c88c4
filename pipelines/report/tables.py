"""Rows of a file: as a table, as samples to read, and binned counts as bars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.contract.display import Bars, Column, Form, Samples, Table, filled, in_places, place_name
from pipelines.report.collect import Stage, group_name
from pipelines.report.content import (
    NOTHING,
    Card,
    Cell,
    Figure,
    Figures,
    Heading,
    Paragraph,
    Part,
    Rows,
    Strong,
    Written,
    number,
    share,
)
from pipelines.report.evaluations import Estimate
from pipelines.report.frame import Axes
from pipelines.report.svg import NUM_COLOURS, histogram


def table(section: Table, stage: Stage) -> list[Part]:
    """Return a table of a stage's file, with its introductory sentence."""
    found = _read(stage, section.port, section.file)
    if not found:
        return []
    rows = look(found, section.rows)
    columns = _spread(section.columns, rows)
    body = []
    for row in rows:
        first, *others = (column.cell(row) for column in columns)
        is_marked = section.marked is not None and look(row, section.marked[0]) == section.marked[1]
        body.append([Strong(first) if is_marked and isinstance(first, str) else first, *others])
    text = [Paragraph(str(look(found, section.text)), "lead")] if section.text else []
    return [Heading(stage.name), *text, Rows([column.title for column in columns], body)]


def samples(section: Samples, stage: Stage) -> list[Part]:
    """Return the first rows of a stage's file, one card per row."""
    rows = stage.lines(section.port, section.file)[: section.count]
    columns = _spread(section.columns, rows)
    facts = [[[column.title, _written(column.cell(row))] for column in columns] for row in rows]
    cards = [Card([Rows(["", ""], cells, numbers_from=2)]) for cells in facts]
    return [Heading(stage.name), *cards] if cards else []


def _written(cell: Cell) -> Cell:
    return Written(cell) if isinstance(cell, str) else cell


def bars(section: Bars, stage: Stage) -> list[Part]:
    """Return a stage's card: its facts in words, and its counts as bars."""
    found = _read(stage, section.port, section.file)
    if not found:
        return []
    facts = [
        filled(words, place.replace("_", " ")).replace("{}", str(value))
        for path, words in section.facts.items()
        for place, value in _places(found, path)
        if value or not place
    ]
    counted = look(found, section.bars).items()
    figures = [Figure(_bars(section.groups, chart), name.replace("_", " ")) for name, chart in counted]
    charts = [Figures(figures)] if figures else []
    return [Card([Heading(group_name(stage), digest_of(stage, section.port)), Paragraph("; ".join(facts)), *charts])]


def digest_of(stage: Stage, port: str) -> str:
    """Return the digest of an output; "" where the stage's record cannot be read."""
    return str(stage.entry["outputs"][port]["digest"]) if stage.entry else ""


def _bars(names: Sequence[str], chart: Mapping[str, Any]) -> Any:
    shown = [name for name in names if name in chart]
    bins = [f"{edge:g}" for edge in chart["edges"][: len(chart[shown[-1]])]]  # a bin goes by its lower edge
    colours = range(1 - len(names), 1)  # the last group is the one that counts, those before it are pale
    colour = {name: colour % NUM_COLOURS for name, colour in zip(names, colours, strict=True)}
    return histogram([(name, chart[name], colour[name]) for name in shown], bins, Axes(width=260, height=150))


def look(value: Any, path: str) -> Any:
    """Return what a dotted path leads to; "" is the value itself, and a key that is missing leads to None."""
    return _follow(value, path.split(".") if path else ())


def _follow(value: Any, keys: Iterable[str]) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _places(value: Any, path: str) -> list[tuple[str, Any]]:
    """Return (what stands in the path's place, value) of all that a path leads to."""
    parent, _, name = path.rpartition(".")
    inner = look(value, parent)
    return [(place, inner[key]) for key, place in in_places(name, inner).items()] if isinstance(inner, Mapping) else []


@dataclass(frozen=True)
class _Shown:
    """A column of the page: one of a declared column's, whose keys may hold dots."""

    title: str
    keys: tuple[str, ...]
    column: Column

    def cell(self, row: Any) -> Cell:
        """Return what a row has in the column."""
        value, form = _follow(row, self.keys), self.column.form
        if form in (Form.SHARE, Form.NUMBER):
            measured = Estimate.read(dict(value)) if isinstance(value, Mapping) else Estimate(value)
            in_cells = share if form is Form.SHARE else number
            return in_cells(None if value is None else measured, digits=self.column.digits)
        texts = [*_texts(value), *(_texts(look(row, self.column.then)) if self.column.then else [])]
        if form is Form.WORDS and texts:
            texts[0] = texts[0].replace("_", " ")
        return "; ".join(texts) if texts else NOTHING


def _spread(columns: Iterable[Column], rows: Sequence[Any]) -> list[_Shown]:
    """Return the columns, those that have a place once for each name that the rows have."""
    found = []
    for column in columns:
        *parent, name = column.value.split(".")
        known = (key for row in rows for key in _follow(row, parent) or ())
        keys = in_places(name, known) if place_name(name) else {name: ""}
        found += [_Shown(filled(column.title, place), (*parent, key), column) for key, place in keys.items()]
    return found


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(item) for item in value] if isinstance(value, list) else [str(value)]


def _read(stage: Stage, port: str, file: str) -> Any:
    return stage.lines(port, file) if file.endswith(".jsonl") else stage.json(port, file)
