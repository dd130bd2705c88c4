"""The section `schedule`, read and checked: times, and data whose change starts a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contract.errors import InputError
from pipelines.language.nodes import Node
from pipelines.language.problems import Problems, shown
from pipelines.language.references import Resolver, Scope
from pipelines.language.uris import check_uri
from pipelines.language.wording import add_schema_errors
from pipelines.recipe.grammar import Timeout
from pipelines.recipe.schedule.cron import UTC_NAME, Cron

SCHEDULE = "schedule"
DEFAULT_POLL_SECONDS = 60.0
MIN_POLL_SECONDS = 1.0
MAX_WATCHED = 50
MAX_KEY_BYTES = 1024
MAX_ASSET = 1500
"""Longest name or URI of an asset of Airflow."""

_S3 = re.compile(r"s3://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(/(?P<key>.*))?", re.DOTALL)
_OTHER = re.compile(r"(?!file:)[A-Za-z][A-Za-z0-9+.-]+:")
_FORM = "expected s3://bucket/prefix/, a path, models:/name@alias, or {asset: name}"


@dataclass(frozen=True)
class Watched:
    """Something whose change starts a run."""

    kind: Literal["s3", "path", "model", "asset"]
    text: str
    """The URI; the absolute path; or the name or URI of an asset of Airflow."""


@dataclass(frozen=True)
class Schedule:
    """When runs of a recipe start by themselves."""

    cron: Cron | None = None
    on: tuple[Watched, ...] = ()
    poll_seconds: float = DEFAULT_POLL_SECONDS
    """How often data are looked at; they must be the same in two looks."""


class ScheduleWords(BaseModel):
    """The section `schedule`: the times, the data, or both."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cron: str | None = None
    """Five fields: minute, hour, day of the month, month, day of the week."""
    timezone: str = UTC_NAME
    """Time zone of `cron`, such as Europe/Berlin."""
    on: str | dict[str, Any] | list[str | dict[str, Any]] = Field(default_factory=list)
    """What starts a run when it changes."""
    poll: Timeout = DEFAULT_POLL_SECONDS
    """How often `on` is looked at."""


def read_schedule(
    root: Node,
    names: Mapping[str, Any],
    folders: Mapping[str, Path],
    resolver: Resolver,
    problems: Problems,
) -> Schedule | None:
    """Return the schedule of a recipe; None if it has none, or if a problem of it was noted.

    `names` are what its references may name; a relative path is relative to the folder of its file, in `folders` by
    the file's label.
    """
    node = root.child(SCHEDULE)
    if node is None or node.value is None:
        return None
    node = resolver.resolve(node, Scope(names, {}))
    if node.holds_unknown():
        return None
    try:
        words = ScheduleWords.model_validate(node.plain())
    except ValidationError as error:
        add_schema_errors(problems, error, node, what="schedule.", schema=ScheduleWords)
        return None
    before = len(problems)
    cron = _cron(words, node, problems)
    on = _on(node.child("on"), folders, problems)
    if words.poll < MIN_POLL_SECONDS:
        problems.add(node.at(("poll",)).mark, "schedule.poll: expected at least 1s")
    if len(problems) == before and cron is None and not on:
        problems.add(node.where, "schedule: neither 'cron' nor 'on' says when a run starts")
    return None if len(problems) > before else Schedule(cron, on, words.poll)


def _cron(words: ScheduleWords, node: Node, problems: Problems) -> Cron | None:
    if words.cron is None:
        if "timezone" in words.model_fields_set:
            problems.add(node.at(("timezone",)).where, "schedule.timezone: there is no 'cron' that it could be for")
        return None
    for key in ("timezone", "cron"):
        try:
            checked = Cron.read(*(("0 0 * * *", words.timezone) if key == "timezone" else (words.cron,)))
        except ValueError as error:
            problems.add(node.at((key,)).mark, f"schedule.{key}: got {shown(getattr(words, key))}, {error}")
            return None
    return Cron(checked.text, words.timezone)


def _on(node: Node | None, folders: Mapping[str, Path], problems: Problems) -> tuple[Watched, ...]:
    items = [] if node is None or node.value is None else node.value if isinstance(node.value, list) else [node]
    if node is not None and len(items) > MAX_WATCHED:
        problems.add(node.mark, f"schedule.on: {len(items)} entries, expected at most {MAX_WATCHED}")
    found: list[Watched] = []
    for item in items[:MAX_WATCHED]:
        try:
            found.append(watched(item.plain(), folders.get(item.file)))
        except (ValueError, InputError) as error:
            text = str(error)
            own = text if isinstance(error, InputError) else f"got {shown(item.plain())}, {text}"
            problems.add(item.mark, f"schedule.on: {own}")
    return tuple(dict.fromkeys(found))


def watched(value: Any, folder: Path | None) -> Watched:
    """Return what an entry of `on` means; raise ValueError or InputError for what cannot be watched."""
    if isinstance(value, dict):
        return _asset(value)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(_FORM)
    if not value.isprintable():
        raise ValueError("control characters are not allowed")
    if value.startswith("s3:"):
        return _s3(value)
    if value.startswith("models:"):
        if "@" not in value:
            raise ValueError("expected models:/name@alias: a version never changes")
        return Watched("model", check_uri(value, folder))
    if _OTHER.match(value):
        raise ValueError(_FORM)
    path = Path(value.removeprefix("file:").removeprefix("//"))
    try:
        return Watched("path", str((folder or Path()).absolute() / path.expanduser()))
    except RuntimeError:
        raise ValueError("there is no such user's folder") from None


def _s3(value: str) -> Watched:
    found = _S3.fullmatch(value)
    if found is None or len((found["key"] or "").encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        raise ValueError("expected s3://bucket/prefix/, or s3://bucket/key")
    return Watched("s3", value if found["key"] is not None else f"{value}/")


def _asset(value: dict[str, Any]) -> Watched:
    name = value.get("asset")
    if value.keys() != {"asset"} or not isinstance(name, str) or not name.strip() or len(name) > MAX_ASSET:
        raise ValueError("expected {asset: name}, the name or URI of an asset of Airflow")
    if not name.isprintable() or not name.isascii():
        raise ValueError("expected printable ASCII characters")
    return Watched("asset", name)
