"""What may travel as code: sizes, names, kinds of files; and which modules a user's code must not replace."""

from __future__ import annotations

import re
import sys
import sysconfig
import unicodedata
from collections.abc import Iterable
from importlib.machinery import PathFinder
from importlib.metadata import packages_distributions
from pathlib import PurePosixPath

from components.contract.errors import InputError
from components.contract.operator_packages.code import CodeTree
from components.contract.terminal import visible_line

MAX_FILE_BYTES = 16 << 20
MAX_BYTES = 64 << 20
"""Most bytes of one tree: data sets and models are inputs, not code."""
MAX_FILES = 4000
MAX_PATH = 240
MAX_NAME_BYTES = 255
"""Longest name of a file or folder on the file systems in use."""
OURS = ("components", "pipelines", "dags", "infra", "posttrain")
NATIVE = (".so", ".pyd", ".dylib", ".dll", ".a", ".o")
SECRET_SUFFIXES = (".pem", ".key", ".p12", ".pfx", ".keystore")
SECRET_NAMES = ("id_rsa", "id_ecdsa", "id_ed25519", "credentials", "credentials.json")
HIDDEN_SECRETS = (".git", ".netrc", ".pypirc", ".aws", ".ssh", ".npmrc")
UNUSED = ("__pycache__", "node_modules")
UNUSED_SUFFIXES = (".pyc", ".pyo", ".egg-info")
DERIVED_IMAGE = "build it into an image of your own: infra/images/derived"


def is_left_out(name: str) -> bool:
    """Return whether a file or folder never travels: hidden ones (.env, .git), and what Python made."""
    return name.startswith(".") or name in UNUSED or name.endswith(UNUSED_SUFFIXES)


def is_secret(name: str) -> bool:
    """Return whether a file or folder of this name never leaves the machine: keys, credentials, .env, .git."""
    low = name.lower()
    return low in (*HIDDEN_SECRETS, *SECRET_NAMES) or low.startswith(".env") or low.endswith(SECRET_SUFFIXES)


def hides_secrets(name: str) -> bool:
    """Return whether a folder of this name holds secrets, whatever its files are called."""
    return name.lower() in HIDDEN_SECRETS


def check_file(path: str, size: int, shown: str) -> None:
    """Raise InputError, in one line, for a file that cannot travel. `path` is POSIX and relative to its tree."""
    steps = PurePosixPath(path).parts
    plain = "/".join(steps) == path and steps and not path.startswith("/") and ".." not in steps and path.isprintable()
    if any(len(step.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES for step in steps):
        raise InputError(f"{shown}: {visible_line(path[:80])}... has a name of more than {MAX_NAME_BYTES} bytes")
    if not plain or "\\" in path or "\0" in path or re.match(r"[A-Za-z]:", path) or len(path) > MAX_PATH:
        raise InputError(f"{shown}: {visible_line(repr(path[:MAX_PATH]))} is no path inside of it")
    name = steps[-1].lower()
    if name.endswith(NATIVE) or ".so." in name:
        raise InputError(
            f"{shown}: {visible_line(path)} is a native extension; only pure Python travels: {DERIVED_IMAGE}"
        )
    if any(map(is_secret, steps)):
        raise InputError(
            f"{shown}: {visible_line(path)} looks like a secret, which is never uploaded; move it elsewhere"
        )
    if size > MAX_FILE_BYTES:
        raise InputError(
            f"{shown}: {visible_line(path)} has {_mib(size)}; a file of code may have {_mib(MAX_FILE_BYTES)}"
        )


def check_together(paths: Iterable[str], shown: str) -> None:
    """Raise InputError for two files that are one on some machines, and for a file that another one has as a folder."""
    known: dict[str, str] = {}
    for path in sorted(paths):
        folded = unicodedata.normalize("NFC", path.casefold())
        other = known.setdefault(folded, path)
        steps = folded.split("/")
        above = next((known[up] for end in range(1, len(steps)) if (up := "/".join(steps[:end])) in known), None)
        if other != path or above is not None:
            both = f"{visible_line(above or other)} and {visible_line(path)}"
            raise InputError(f"{shown}: {both} cannot both lie in a folder; rename one")


def check_whole(sizes: Iterable[int], shown: str) -> None:
    """Raise InputError if a tree has too many files or bytes."""
    found = list(sizes)
    if len(found) > MAX_FILES:
        raise InputError(f"{shown}: more than {MAX_FILES} files")
    if sum(found) > MAX_BYTES:
        raise InputError(f"{shown}: {_mib(sum(found))}; code may have {_mib(MAX_BYTES)}: name data as an input instead")


def check_modules(tree: CodeTree, shown: str) -> None:
    """Raise InputError for a module at the top of a tree that would replace Python's, ours or an installed one."""
    for module in tree.modules:
        if module in sys.stdlib_module_names:
            raise InputError(f"{shown}: its module {module!r} has the name of one of Python's own; rename it")
        if module in OURS:
            raise InputError(f"{shown}: its module {module!r} has the name of one of posttrain's own; rename it")
        owners = installed_as(module)
        if owners and plain(tree.distribution) not in {plain(owner) for owner in owners}:
            raise InputError(
                f"{shown}: its module {module!r} is installed here, too ({', '.join(owners)}), and would be shadowed; "
                "rename it, or leave one of the two out"
            )


def installed_as(module: str) -> list[str]:
    """Return the distributions that hold a module among the installed packages; empty if there is none."""
    places = list(dict.fromkeys([sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]))
    if PathFinder.find_spec(module, places) is None:
        return []
    return packages_distributions().get(module) or ["a loose file"]


def plain(name: str) -> str:
    """Return a distribution's name in the form in which names are compared."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.1f} MiB"
