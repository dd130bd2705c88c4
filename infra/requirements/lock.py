"""Write <name>.lock from <name>.in: the exact versions that this environment holds, and all that they depend on.

Usage: install the .in files into a fresh virtual environment, run the tests there, then run this file in it with their
names. Each engine has an environment of its own, since their packages want different versions of shared ones.
A package's local version (torch's +cpu) is left out, so that the lock also resolves where another build is offered.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FOLDER = Path(__file__).parent
BASE = {"test": "stages", "docs": "stages"}
"""Locks that are installed on top of another and leave out what it has."""


def closure(lines: list[str]) -> dict[str, str]:
    """Return canonical name -> version of the requirements in `lines` and of everything that they need here."""
    found: dict[str, str] = {}
    queue = [Requirement(line) for line in lines]
    seen: set[tuple[str, frozenset[str]]] = set()
    while queue:
        wanted = queue.pop()
        key = (canonicalize_name(wanted.name), frozenset(wanted.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            installed = distribution(wanted.name)
        except PackageNotFoundError:
            continue  # needed on other platforms only
        found[key[0]] = installed.version.partition("+")[0]
        for text in installed.requires or []:
            needed = Requirement(text)
            extras = wanted.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras):
                queue.append(needed)
    return found


def read(name: str) -> list[str]:
    """Return the requirement lines of an .in file."""
    text = (FOLDER / f"{name}.in").read_text()
    return [line for line in text.splitlines() if line and not re.match(r"\s*#", line)]


def main(names: list[str]) -> None:
    """Write the locks of the named files, which this environment must hold."""
    for name in names:
        packages = closure(read(name))
        below = closure(read(BASE[name])) if name in BASE else {}
        lines = [f"{package}=={version}" for package, version in sorted(packages.items()) if package not in below]
        header = f"# Written by infra/requirements/lock.py from {name}.in; do not edit.\n"
        (FOLDER / f"{name}.lock").write_text(header + "\n".join(lines) + "\n")
        print(f"{name}.lock: {len(lines)} packages")


if __name__ == "__main__":
    main(sys.argv[1:])
