"""How a component declares its presentation: its role, its entry in the final table, its sections of the report.

A declaration is data in the component's folder: pipelines/report draws every kind of section defined here, for any
component that declares it. None of it is part of a fingerprint.

Metric names and JSON paths may have a placeholder, as in "pass_at_1_<domain>": it matches every name that fits, and
texts beside it with the same placeholder are filled in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from components.contract.artifacts import HISTORY_FILE, METRICS_FILE

_PLACE = re.compile(r"<[^<>]+>")


class Role(StrEnum):
    """Role of a kind of work in a recipe, in the order of the report's sections."""

    MEASURING = "measuring"
    """Measures how good a model is."""
    PRETRAINING = "pretraining"
    """Makes a base model."""
    TRAINING = "training"
    """Trains a model for a task."""
    CHOOSING = "choosing"
    """Passes on one of its input models."""
    DATA = "data"
    """Makes rows."""
    OTHER = "other"
    """None of these."""


class Form(StrEnum):
    """Format of a value."""

    TEXT = "text"
    WORDS = "words"
    """A name with underscores as words."""
    NUMBER = "number"
    SHARE = "share"
    """A number from 0 to 1, or {"value", "low", "high"}, shown in per cent with its interval."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A table column: which value of a row it shows, and in which format."""

    value: str
    """A metric, or a dotted path into a row such as "metrics.pass_at_1_<domain>"."""
    title: str
    """Header of the column."""
    form: Form = Form.TEXT
    """Format of the value."""
    then: str = ""
    """Path to a second value in the same cell, after "; "."""
    digits: int = 1
    """Decimal places of a number."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """How a component's measurements appear in the table at the end of a run and at the top of the report.

    Components that declare the same metric by the same name share one table: a row per measured model, seeds pooled.
    """

    title: str
    """Title of the report's section."""
    metric: str
    """The metric that is compared: "accuracy", or "pass_at_1_<domain>" for one column per domain."""
    name: str
    """Display name of the metric: "pass@1"."""
    about: str = ""
    """Display name with what was measured, "held-out pass@1"; `name` by default."""
    share: bool = True
    """Whether the metric is a share from 0 to 1, shown in per cent."""
    digits: int = 1
    """Decimal places."""
    over: str = "prompts"
    """Unit that one stage's intervals are computed over."""
    subject: str = "model"
    """The input port whose models are the rows."""
    columns: tuple[Column, ...] = ()
    """Further metrics shown beside it."""
    recovery: str = ""
    """Title of the section on how much of a share the recipe lost and recovered; no section without a title."""


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
    """The file of that output: JSON, or JSON lines if its name ends in .jsonl."""


@dataclass(frozen=True, kw_only=True)
class Curves(Section):
    """Columns of a history, one chart per column and one line per stage; columns a stage did not log are left out."""

    columns: Mapping[str, str]
    """Column -> the chart's caption, in page order."""
    x: str = "step"
    """The column on the horizontal axis."""
    file: str = HISTORY_FILE


@dataclass(frozen=True, kw_only=True)
class Profiles(Section):
    """A file {chart: {x: {"value", "low", "high"}}}: one chart each, with one line per measured model.

    The component declares `Results`, which names the models.
    """

    x_label: str
    """Label of the horizontal axis."""
    y_label: str
    """Label of the vertical axis."""
    x_log2: bool = False
    """Whether the horizontal axis is logarithmic, base 2."""
    share: bool = True
    """Whether the values are shares from 0 to 1, shown in per cent."""


@dataclass(frozen=True, kw_only=True)
class Table(Section):
    """Rows of a file, as one table per stage."""

    columns: tuple[Column, ...]
    """The columns; the first names the row."""
    rows: str = ""
    """Dotted path to the list of rows; the whole file by default."""
    text: str = ""
    """Dotted path to a sentence above the table."""
    marked: tuple[str, str] | None = None
    """(path, value) that selects the rows whose name is bold."""


@dataclass(frozen=True, kw_only=True)
class Bars(Section):
    """Histograms, one card per distinct output: {chart: {"edges", GROUP: counts, ...}}."""

    bars: str
    """Dotted path to the charts."""
    groups: tuple[str, ...]
    """Keys of the counts, shown side by side where a chart has them."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """Dotted path -> a few words with "{}" for the value; zeros are left out if the path has a placeholder."""


@dataclass(frozen=True, kw_only=True)
class Samples(Section):
    """Some rows of a JSON lines file to read, as written."""

    columns: tuple[Column, ...]
    """Columns shown of each row."""
    count: int = 8
    """Number of rows per stage."""


@dataclass(frozen=True, kw_only=True)
class Views(Section):
    """A file {title: view}, each with a text, tables and charts: components/measure/harness/views.py."""


@dataclass(frozen=True, kw_only=True)
class Audit(Section):
    """What a reward may be gamed by: its parts beside gold by step, and what responses with top rewards share."""

    history_port: str = "metrics"
    history: str = HISTORY_FILE
    """The file with a row for each step."""
    proxy: str
    """The column of what is learned from."""
    prefix: str
    """What the columns of its parts begin with."""
    not_parts: tuple[str, ...] = ()
    """Columns that begin so and are no part."""
    gold: Mapping[str, str]
    """Column -> name of what the reward should go with."""


def place_pattern(name: str) -> re.Pattern[str]:
    """Return a pattern for all names that a declared name matches; its groups are the placeholders' values."""
    return re.compile("(.+)".join(map(re.escape, _PLACE.split(name))))


def place_name(name: str) -> str:
    """Return the first placeholder of a declared name without its brackets: "domain"; "" if it has none."""
    found = _PLACE.search(name)
    return found.group()[1:-1] if found else ""


def in_places(name: str, known: Iterable[str]) -> dict[str, str]:
    """Return the known names that a declared name matches, each with its placeholder's value ("" without one)."""
    pattern = place_pattern(name)
    found = ((other, pattern.fullmatch(other)) for other in dict.fromkeys(known))
    return {other: "".join(match.groups()[:1]) for other, match in found if match}


def filled(text: str, place: str) -> str:
    """Return a text with its placeholders filled in."""
    return _PLACE.sub(lambda _: place, text)
