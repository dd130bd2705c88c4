"""What a component declares of how it is shown: its role, its place in the end table, its sections of the report.

A declaration is data, in the component's own folder: pipelines/report draws every kind of section that stands here, for
whatever component declares it. Nothing of it is part of a fingerprint.

Names of metrics and paths into JSON may have a place, as in "pass_at_1_<domain>": it stands for every name that fits,
and the texts beside it that have the same place are filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from components.contract.artifacts import HISTORY_FILE, METRICS_FILE

_PLACE = re.compile(r"<[^<>]+>")


class Role(StrEnum):
    """What a kind of work is to a recipe, in the order of the report's sections."""

    MEASURING = "measuring"
    """Says how good a model is."""
    PRETRAINING = "pretraining"
    """Makes a base model."""
    TRAINING = "training"
    """Makes a model that is aligned to a task."""
    CHOOSING = "choosing"
    """Hands on one of the models that it is given."""
    DATA = "data"
    """Makes rows."""
    OTHER = "other"
    """None of these."""


class Form(StrEnum):
    """How a value is written."""

    TEXT = "text"
    WORDS = "words"
    """A name with underscores as words."""
    NUMBER = "number"
    SHARE = "share"
    """A number from 0 to 1, or {"value", "low", "high"}, in per cent with its interval."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of a table: which value of a row it shows, and how."""

    value: str
    """A metric, or a dotted path into a row such as "metrics.pass_at_1_<domain>"."""
    title: str
    """The head of the column."""
    form: Form = Form.TEXT
    """How the value is written."""
    then: str = ""
    """Path to what follows the value in the same cell, with "; " between."""
    digits: int = 1
    """Digits behind the point of a number."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """How what a component measures joins the table at the end of a run and the head of the report.

    Components that declare the same metric by the same name have one table together: a row for each model that was
    measured, seeds taken together.
    """

    title: str
    """Title of the report's section."""
    metric: str
    """The metric that is compared: "accuracy", or "pass_at_1_<domain>" for a column of each domain."""
    name: str
    """What people call the metric: "pass@1"."""
    about: str = ""
    """The name with what it was measured on, "held-out pass@1"; the name by default."""
    share: bool = True
    """Whether the metric is a share from 0 to 1, which is shown in per cent."""
    digits: int = 1
    """Digits behind the point."""
    over: str = "prompts"
    """What the intervals of one stage are over."""
    subject: str = "model"
    """The input port whose models are the rows."""
    columns: tuple[Column, ...] = ()
    """Further metrics that stand beside."""
    recovery: str = ""
    """Title of the section on how much of a share was lost along the recipe and given back; none without a title."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of the report; components that declare a section of one kind and title share it."""

    title: str
    """Title of the section."""
    lead: str = ""
    """A sentence below the title."""
    port: str = "metrics"
    """The output that holds the file."""
    file: str = METRICS_FILE
    """The file of that output that is shown: JSON, or JSON lines where its name ends so."""


@dataclass(frozen=True, kw_only=True)
class Curves(Section):
    """Columns of a history, one chart each and one line a stage; those that a stage did not log are left out."""

    columns: Mapping[str, str]
    """Column -> the chart's caption, in the order of the page."""
    x: str = "step"
    """The column on the horizontal axis."""
    file: str = HISTORY_FILE


@dataclass(frozen=True, kw_only=True)
class Profiles(Section):
    """A file {chart: {x: {"value", "low", "high"}}}: one chart each, and one line for each model that was measured.

    The component declares `Results`, which names the models.
    """

    x_label: str
    """What the horizontal axis shows."""
    y_label: str
    """What the vertical axis shows."""
    x_log2: bool = False
    """Whether the horizontal axis has powers of two."""
    share: bool = True
    """Whether the values are shares from 0 to 1, shown in per cent."""


@dataclass(frozen=True, kw_only=True)
class Table(Section):
    """Rows of a file as a table for each stage."""

    columns: tuple[Column, ...]
    """The columns, the first of which names the row."""
    rows: str = ""
    """Dotted path to the list of rows; the whole file by default."""
    text: str = ""
    """Dotted path to a sentence above the table."""
    marked: tuple[str, str] | None = None
    """(path, value) of the rows whose name is set in bold."""


@dataclass(frozen=True, kw_only=True)
class Bars(Section):
    """Counts in bins as bars, a card for each output that differs: {chart: {"edges", GROUP: counts, ...}}."""

    bars: str
    """Dotted path to the charts."""
    groups: tuple[str, ...]
    """Keys of the counts, which are shown side by side where a chart has them."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Dotted path -> a few words with "{}" for the value; zeros behind a path with a place are left out."""


@dataclass(frozen=True, kw_only=True)
class Samples(Section):
    """Some rows of a file of JSON lines to read, as they were written."""

    columns: tuple[Column, ...]
    """What is shown of each row."""
    count: int = 8
    """How many rows of each stage."""


def place_pattern(name: str) -> re.Pattern[str]:
    """Return what matches all names that a declared name stands for; its groups are what stands in the places."""
    return re.compile("(.+)".join(map(re.escape, _PLACE.split(name))))


def place_name(name: str) -> str:
    """Return what stands between the brackets of a declared name's first place: "domain"; "" without a place."""
    found = _PLACE.search(name)
    return found.group()[1:-1] if found else ""


def in_places(name: str, known: Iterable[str]) -> dict[str, str]:
    """Return the known names that a declared name stands for, each with what stands in its place ("" without one)."""
    pattern = place_pattern(name)
    found = ((other, pattern.fullmatch(other)) for other in dict.fromkeys(known))
    return {other: "".join(match.groups()[:1]) for other, match in found if match}


def filled(text: str, place: str) -> str:
    """Return a text with what stands in its place."""
    return _PLACE.sub(lambda _: place, text)
