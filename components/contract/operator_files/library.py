"""The users' code that this process knows, by digest: that of its job or recipe, and that which its store holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from components.contract.operator_files.code import OperatorCode
from components.contract.operator_packages.code import PackageCode

UserCode = OperatorCode | PackageCode
"""A file with the modules beside it, or packages."""
Source = Callable[[str], UserCode | None]
"""Returns the code of a digest, or None."""

_codes: dict[str, UserCode] = {}
_sources: list[Source] = []


def keep(codes: Iterable[UserCode]) -> None:
    """Make codes known, under the digest of what they hold."""
    for code in codes:
        _codes[code.digest] = code


def look_in(source: Source) -> None:
    """Look for unknown digests in `source` from now on, in place of any earlier one: a process works on one store."""
    _sources[:] = [source]


def find(digest: str) -> UserCode | None:
    """Return the code of a digest; None if neither this process nor its store has it."""
    if digest not in _codes:
        for source in _sources:
            code = source(digest)
            if code is not None and code.digest == digest:
                _codes[digest] = code
    return _codes.get(digest)
