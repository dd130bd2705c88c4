"""Location of a module's source, however its package is installed, without importing it.

It uses the running interpreter's finders, so the result is what an import would run: single files, packages, namespace
packages, regular installs, and editable ones by a path file, a custom finder, or a folder of links.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

from components.contract.registry import plugged_in
from components.runtime.system.code import LOCK

OURS = "components"
PROJECT = "posttrain"
PLANNING = ("pipelines", "dags")
"""Packages of this project that no stage runs."""
_TOP_OF_FILE = re.compile(r'^(?:"([^/"\n]+)(?:/[^"\n]*)?\.py"|([^/,"\n]+)(?:/[^,"\n]*)?\.py)(?:,|$)', re.MULTILINE)
"""First part of the path of a Python file, in a line of a list of installed files."""


@dataclass(frozen=True)
class ModulePlace:
    """Location of a module: its source, or why it cannot be read."""

    module: str
    is_package: bool
    path: Path | None = None
    """Its file; None for a namespace package, which has none."""
    text: str | None = None
    """Its source if no file holds it, as in a zip archive."""
    trouble: str | None = None
    """Why its source cannot be read; None if it can, or if there is nothing to read."""

    @property
    def label(self) -> str:
        """Return its name in fingerprints, independent of where and how its package is installed."""
        return self.module.replace(".", "/") + ("/__init__.py" if self.is_package else ".py")


class Finder:
    """Finds modules and caches the results; one is made for each job or plan."""

    def __init__(self) -> None:
        self._specs: dict[str, ModuleSpec | None] = {}
        self._places: dict[str, ModulePlace | None] = {}

    def place(self, module: str) -> ModulePlace | None:
        """Return a module's location, or None if there is no module of that name."""
        if module not in self._places:
            spec = self.spec(module)
            self._places[module] = _place(module, spec) if spec else None
        return self._places[module]

    def spec(self, module: str) -> ModuleSpec | None:
        """Return a module's spec as an import would find it, without importing its parents."""
        if module not in self._specs:
            self._specs[module] = self._find(module)
        return self._specs[module]

    def below(self, package: str) -> list[str]:
        """Return all modules inside a package, at any depth."""
        spec = self.spec(package)
        found = []
        for folder in map(Path, (spec and spec.submodule_search_locations) or ()):
            for path in sorted(folder.rglob("*.py")):
                steps = path.relative_to(folder).with_suffix("").parts
                steps = steps[:-1] if steps[-1] == "__init__" else steps
                if all(step.isidentifier() for step in steps):
                    found.append(".".join([package, *steps]))
        return found

    def _find(self, module: str) -> ModuleSpec | None:
        parent, _, _ = module.rpartition(".")
        path: Any = None
        if parent:
            above = self.spec(parent)
            if above is None or above.submodule_search_locations is None:
                return None
            loaded = sys.modules.get(parent)  # a package may have added to its path while it was imported
            path = list(getattr(loaded, "__path__", None) or above.submodule_search_locations)
        for finder in sys.meta_path:
            try:
                if (find := getattr(finder, "find_spec", None)) and (spec := find(module, path)):
                    return spec
            except KeyError:  # importlib's error for a namespace package inside a package that is not imported
                return _namespace(module, path)
        return None


def _namespace(module: str, path: list[str]) -> ModuleSpec:
    spec = ModuleSpec(module, None, is_package=True)
    portions = [Path(place) / module.rpartition(".")[2] for place in path]
    spec.submodule_search_locations = [str(portion) for portion in portions if portion.is_dir()]
    return spec


def _place(module: str, spec: ModuleSpec) -> ModulePlace:
    is_package = spec.submodule_search_locations is not None
    if is_package and spec.origin is None:
        return ModulePlace(module, True)
    if spec.origin and spec.origin.endswith(".py") and Path(spec.origin).is_file():
        return ModulePlace(module, is_package, Path(spec.origin))
    try:
        text = spec.loader.get_source(module) if hasattr(spec.loader, "get_source") else None
    except (ImportError, OSError) as error:
        return ModulePlace(module, is_package, trouble=f"{spec.origin}: {error}")
    if text is not None:
        return ModulePlace(module, is_package, text=text)
    return ModulePlace(module, is_package, trouble=f"{spec.origin or 'its loader'} holds none")


class Own:
    """Decides which modules are followed from a root: this project's, and those of packages that plug into it.

    Followed are modules of the root's distribution, of others that register something with posttrain, and modules
    that no distribution installed as its own files: editable ones and loose files. The rest are libraries.
    """

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._answers: dict[tuple[str, str], bool] = {}

    def follows(self, module: str, root: str) -> bool:
        """Return whether a module that the closure of `root` imports is part of it."""
        top, home = module.partition(".")[0], root.partition(".")[0]
        if top in (OURS, home):
            return True
        if home == OURS or top in PLANNING or top in sys.stdlib_module_names:
            return False
        if (top, home) not in self._answers:
            self._answers[top, home] = self.near(module, root) or self._is_own(top)
        return self._answers[top, home]

    def near(self, module: str, root: str) -> bool:
        """Return whether a module belongs to this project or to the root's package or distribution."""
        top, home = module.partition(".")[0], root.partition(".")[0]
        if home == OURS:
            return top == OURS
        return top in (OURS, home) or bool(set(packages_of(top)) & set(packages_of(home)))

    def _is_own(self, top: str) -> bool:
        owners = packages_of(top)
        if not owners or any(owner in plugged_in() for owner in owners):
            return True
        if any(_plain(owner) in required_libraries() for owner in owners):
            return False
        spec = self._finder.spec(top)
        places = [spec.origin] if spec and spec.origin else list((spec and spec.submodule_search_locations) or ())
        sites = [Path(str(distribution(owner).locate_file(""))).resolve() for owner in owners]
        return any(not any(Path(place).resolve().is_relative_to(site) for site in sites) for place in places)


def packages_of(top: str) -> tuple[str, ...]:
    """Return the distributions that declare the top-level module `top`."""
    return tuple(dict.fromkeys(_name(found) for found in _tops_to_packages().get(top, ())))


def package_version(name: str) -> str | None:
    """Return the version of an installed distribution, else of its pin in the stages' lock; None without either.

    An environment that only plans or orders jobs lacks the stages' libraries; the lock has what images install.
    """
    try:
        return distribution(name).version
    except PackageNotFoundError:
        return _pinned().get(_plain(name))


def is_library(name: str) -> bool:
    """Return whether a distribution of this name is one that stages run with, installed here or not."""
    return _plain(name) in required_libraries() or _plain(name) in _pinned()


@cache
def _pinned() -> dict[str, str]:
    lines = LOCK.read_text(encoding="utf-8").splitlines() if LOCK.is_file() else []
    pins = [re.match(r"([\w.-]+)==([^\s;]+)", line) for line in lines]
    return {_plain(pin[1]): pin[2] for pin in pins if pin}


@cache
def _tops_to_packages() -> dict[str, list[Distribution]]:
    """Return top-level module -> what declares it: importlib.metadata.packages_distributions, in a tenth of its time.

    That makes a path of each file that is installed and parses all metadata, in every command and every job.
    """
    found: dict[str, list[Distribution]] = {}
    for one in distributions():
        declared = (one.read_text("top_level.txt") or "").split()
        listed = "" if declared else one.read_text("RECORD") or "\n".join(map(str, one.files or ()))
        for top in declared or {quoted or plain for quoted, plain in _TOP_OF_FILE.findall(listed)}:
            found.setdefault(top, []).append(one)
    return found


@cache
def _name(found: Distribution) -> str:
    return found.metadata["Name"]


@cache
def required_libraries() -> frozenset[str]:
    """Return the libraries that this project requires: they are never followed, wherever they are installed."""
    try:
        lines = distribution(PROJECT).requires or []
    except PackageNotFoundError:
        return frozenset()
    return frozenset(_plain(match[0]) for line in lines if (match := re.match(r"[\w.-]+", line)))


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()
