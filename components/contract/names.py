"""Registry: names of one kind, each with a target "module:object" that is imported on first use."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import Any

from components.contract.errors import InputError, UnknownName


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

        Registering the same target again changes nothing; another target raises an InputError naming both origins.
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
            raise UnknownName(self.kind, name, self._entries, self.hint(name))
        return self._entries[name]

    def hint(self, name: str) -> str:
        """Return advice on an unknown name, or ""."""
        return ""

    def get(self, name: str) -> Any:
        """Import and return the object behind `name`; raise UnknownName, or InputError when the import fails."""
        entry = self.entry(name)
        if name not in self._loaded:
            self._loaded[name] = load_target(entry.target, f"{self.kind} {name!r} (registered by {entry.origin})")
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries


def load_target(target: str, owner: str) -> Any:
    """Import the object that a "module:object" string names; the error message begins with `owner`."""
    module_name, _, attribute = target.partition(":")
    try:
        return getattr(importlib.import_module(module_name), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"{owner}: cannot load {target}: {error}") from error


def _caller() -> str:
    frame = inspect.stack()[2]
    return f"{frame.filename}:{frame.lineno}"
