"""Entry points of installed packages, which bring components, operators, engines and folders; light to import."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoints, entry_points


def plug_ins(group: str) -> EntryPoints:
    """Return the entry points of a group, of all installed packages."""
    return _entry_points().select(group=group)


@cache
def _entry_points() -> EntryPoints:
    """Read the metadata of all installed packages, once: it takes longer than most imports."""
    return entry_points()  # type: ignore[return-value]  # Python 3.11's return type has select, too
