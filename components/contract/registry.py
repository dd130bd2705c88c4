"""One registry for everything that is found by name: components, and the operators that fill their slots.

Targets are "module:object" strings and are imported at first use, so listing names costs nothing. Third parties plug
in through Python entry points: group `posttrain.components` (name = component), and group `posttrain.operators`
(name = "slot.operator"). Files come along by groups whose value is a Python package with a folder of them:
`posttrain.methods` (presets) and `posttrain.recipes`.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any

from components.contract.errors import InputError, UnknownName

COMPONENT_GROUP = "posttrain.components"
OPERATOR_GROUP = "posttrain.operators"


@dataclass(frozen=True)
class Entry:
    """A registered name: where its object is, and who registered it."""

    target: str
    origin: str


class Registry:
    """Names of one kind, each with a lazy target."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, Entry] = {}
        self._loaded: dict[str, Any] = {}

    def add(self, name: str, target: str, *, origin: str | None = None) -> None:
        """Register `name` for the "module:object" `target`.

        Registering the same target again changes nothing; another target raises InputError that names both origins.
        """
        if target.count(":") != 1:
            raise InputError(f"{self.kind} {name!r}: target {target!r} is not of the form 'module:object'")
        origin = origin or _caller()
        known = self._entries.get(name)
        if known and known.target != target:
            raise InputError(
                f"{self.kind} {name!r} is registered twice: {known.target} by {known.origin}, and {target} by {origin}"
            )
        if not known:
            self._entries[name] = Entry(target, origin)

    def names(self) -> list[str]:
        """Return all registered names, sorted."""
        return sorted(self._entries)

    def entry(self, name: str) -> Entry:
        """Return target and origin of `name` without importing it; raise UnknownName with near misses."""
        if name not in self._entries:
            raise UnknownName(self.kind, name, self._entries)
        return self._entries[name]

    def get(self, name: str) -> Any:
        """Import and return the object behind `name`; raise UnknownName, or InputError when the import fails."""
        entry = self.entry(name)
        if name not in self._loaded:
            self._loaded[name] = load_target(entry.target, f"{self.kind} {name!r} (registered by {entry.origin})")
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries


def load_target(target: str, owner: str) -> Any:
    """Import the object that a "module:object" string names; `owner` is who is blamed in the error."""
    module_name, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{owner}: cannot load {target}: {error}") from error


def _caller() -> str:
    frame = inspect.stack()[2]
    return f"{frame.filename}:{frame.lineno}"


@cache
def components() -> Registry:
    """Return the registry of all components, in-tree and from entry points."""
    from components.catalog import COMPONENTS

    registry = Registry("component")
    for name, target in COMPONENTS.items():
        registry.add(name, target, origin="components/catalog.py")
    for point in _entry_points().select(group=COMPONENT_GROUP):
        registry.add(point.name, point.value, origin=_distribution(point))
    return registry


@cache
def operators(slot: str) -> Registry:
    """Return the registry of the operators that fill `slot`, in-tree and from entry points.

    Raises UnknownName when no such slot exists.
    """
    from components.catalog import OPERATORS

    if slot not in OPERATORS:
        raise UnknownName("operator slot", slot, OPERATORS)
    registry = Registry(f"{slot} operator")
    for name, target in OPERATORS[slot].items():
        registry.add(name, target, origin="components/catalog.py")
    for point in _entry_points().select(group=OPERATOR_GROUP):
        point_slot, _, name = point.name.partition(".")
        if point_slot == slot:
            registry.add(name, point.value, origin=_distribution(point))
    return registry


@dataclass(frozen=True)
class Folder:
    """A folder of files that a package brings, and the package."""

    folder: Path
    origin: str


@cache
def registered_folders(group: str) -> tuple[Folder, ...]:
    """Return the folders of the Python packages that the entry points of `group` name; nothing of them is run.

    Raises InputError for an entry point that leads to no package.
    """
    found = []
    for point in sorted(_entry_points().select(group=group), key=lambda point: point.name):
        try:
            spec = importlib.util.find_spec(point.value)
        except (ImportError, ValueError) as error:
            raise InputError(f"{_distribution(point)}, entry point {group}: {point.value}: {error}") from error
        if spec is None or not spec.submodule_search_locations:
            raise InputError(f"{_distribution(point)}, entry point {group}: {point.value!r} is no Python package")
        found += [Folder(Path(place), _distribution(point)) for place in spec.submodule_search_locations]
    return tuple(found)


@cache
def _entry_points() -> EntryPoints:
    """Read the metadata of all installed packages, once: it takes as long as everything else in this module."""
    return entry_points()  # type: ignore[return-value]  # what Python 3.11 gives can select, too


def _distribution(point: Any) -> str:
    return f"package {point.dist.name} {point.dist.version}" if point.dist else f"entry point {point.name}"
