"""Great Expectations, imported without what checks of rows in memory never use.

It imports SQLAlchemy and Google's client if they are installed (MLflow brings them), and scipy's statistics for one
expectation: together over a third of its import, which every run pays.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

OPTIONAL = ("google.auth", "google.oauth2", "sqlalchemy")
"""Great Expectations takes these for not installed; its own extras bring them."""
LATER = "scipy.stats"
"""Imported when an expectation first uses it."""


class _Later(ModuleType):
    """Stands for a module until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


@contextmanager
def _lean_import() -> Iterator[None]:
    """Hide optional libraries, and put off one, for the imports inside; all of them can be imported afterwards."""
    hidden = [name for name in OPTIONAL if name not in sys.modules]
    later = LATER not in sys.modules
    package, _, attribute = LATER.rpartition(".")
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: an import of it fails
    if later:
        parent = import_module(package)
        sys.modules[LATER] = stand_in = _Later(LATER)
        setattr(parent, attribute, stand_in)
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]
        if later and sys.modules.get(LATER) is stand_in:
            del sys.modules[LATER]
        if later and vars(parent).get(attribute) is stand_in:
            delattr(parent, attribute)


if "great_expectations" not in sys.modules:
    with _lean_import():
        import great_expectations  # noqa: F401
