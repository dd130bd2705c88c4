"""Names of operators that lie in files: as written in a recipe, and as they travel.

A recipe writes `./my_reward.py:brevity`, or `my_package.rewards:brevity` of a package that its `code` names. Where the
recipe is read, this becomes `my_reward.py:brevity@<digest>`: the digest is that of the file and of the modules beside
it that it imports, or of the package's files, so the name means the same code everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from components.contract.errors import InputError

MAX_NAME = 60
"""Characters of a file's name, and of a function's."""
MAX_PACKAGE_NAME = 120
"""Characters of `package.module:function`: rows name their verifier so."""
SHOWN_DIGITS = 12
_WRITTEN = re.compile(r"(?P<path>[^\0\n]*\.py):(?P<function>[^\s:@/.]+)")
_MODULE = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_TRAVELS = re.compile(
    rf"(?P<file>[A-Za-z0-9_][\w.-]*\.py|{_MODULE}):(?P<function>[A-Za-z_]\w*)@(?P<digest>[0-9a-f]{{64}})", re.ASCII
)
_IN_PACKAGE = re.compile(rf"(?P<module>{_MODULE}):(?P<function>[A-Za-z_]\w*)", re.ASCII)
_FILE = re.compile(r"[A-Za-z0-9_][\w.-]*\.py", re.ASCII)
_LONG = re.compile(rf"\b([0-9a-f]{{{SHOWN_DIGITS}}})[0-9a-f]{{{64 - SHOWN_DIGITS}}}\b")


@dataclass(frozen=True)
class WrittenName:
    """A function in a file, as a person writes it."""

    path: str
    function: str


@dataclass(frozen=True)
class PackageName:
    """A function in a module of a package that the recipe's `code` names, as a person writes it."""

    module: str
    function: str


@dataclass(frozen=True)
class TravelName:
    """A function in a file or in a module of a package, by the content."""

    file: str
    """The file's name, or the module's."""
    function: str
    digest: str

    def __str__(self) -> str:
        return f"{self.file}:{self.function}@{self.digest}"


def written_name(text: str) -> WrittenName | None:
    """Return the parts of `path/to/file.py:function`; None for any other text. The path is not checked."""
    match = _WRITTEN.fullmatch(text)
    return WrittenName(match["path"], match["function"]) if match else None


def package_name(text: str) -> PackageName | None:
    """Return the parts of `package.module:function`; None for any other text. Whether it exists is not checked."""
    match = _IN_PACKAGE.fullmatch(text) if len(text) <= MAX_PACKAGE_NAME else None
    return PackageName(match["module"], match["function"]) if match else None


def travel_name(text: str) -> TravelName | None:
    """Return the parts of `file.py:function@digest`, or of `module:function@digest`; None for any other text."""
    match = _TRAVELS.fullmatch(text) if len(text) < 200 else None
    return TravelName(match["file"], match["function"], match["digest"]) if match else None


def check_file_name(name: str) -> None:
    """Raise InputError unless a file's name can travel: letters, digits, '_', '-' and '.', ending in .py."""
    if not _FILE.fullmatch(name) or len(name) > MAX_NAME:
        raise InputError(
            f"{name!r}: an operator's file has a name of letters, digits, '_', '-' and '.', of at most {MAX_NAME} "
            "characters, that ends in .py"
        )


def check_function_name(name: str) -> None:
    """Raise InputError unless `name` can be a function's: an ASCII identifier of bounded length."""
    if not (name.isidentifier() and name.isascii()) or len(name) > MAX_NAME:
        raise InputError(f"{name!r} is not the name of a function")


def without_digests(text: str) -> str:
    """Return a text for people, in which operators from files, and artifacts, have the first digits of their digest."""
    return _LONG.sub(r"\1", text)


def plain_name(name: str) -> str:
    """Return an operator's name for people: `file.py:function` without its digest, any other name as it is."""
    found = travel_name(name)
    return f"{found.file}:{found.function}" if found else name
