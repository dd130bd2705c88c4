"""The closure of a root module: every module whose code may run when it is imported or called."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from components.contract.errors import InputError
from components.contract.operator_files.code import OperatorCode
from components.contract.operator_packages import contents
from components.contract.operator_packages.code import ModuleCode, PackageCode
from components.runtime.closure.locate import OURS, Finder, ModulePlace, Own, package_version, packages_of
from components.runtime.closure.source import DECLARATION, Source, file_digest, parse_source, read_source

WALLS = ("components.contract", "components.runtime")
"""Packages left out of closures: the fingerprint's epoch covers their effect on a stage."""
WORK = ("components.runtime.sandbox",)
"""Packages inside WALLS that do count: they decide verdicts."""
NOT_INSTALLED = "not installed"
MAX_NAME = 200
CODE_SUFFIXES = (".py", ".pyc", ".pyi")


@dataclass
class Code:
    """The code that a stage runs."""

    files: dict[str, str] = field(default_factory=dict)
    """Name of a source file -> hash of its code."""
    packages: dict[str, str] = field(default_factory=dict)
    """Installed package that counts -> its version."""

    def add(self, other: Code) -> None:
        """Add the code of another root."""
        self.files |= other.files
        self.packages |= other.packages


class Closures:
    """Closures of one plan or one job, in which every file is examined once."""

    def __init__(self) -> None:
        self._finder = Finder()
        self._own = Own(self._finder)
        self._sources: dict[str, Source | None] = {}
        self._done: dict[tuple[str, str], Code] = {}

    def of(self, root: str, owner: str, fields_of: str = "") -> Code:
        """Return the closure of module `root`; the fields of its class `fields_of` do not count.

        Raises an InputError that begins with `owner` if the source of a module that counts cannot be read.
        """
        if (root, fields_of) not in self._done:
            self._done[root, fields_of] = self._walk(root, owner, fields_of)
        return self._done[root, fields_of]

    def of_user(self, code: OperatorCode | ModuleCode) -> Code:
        """Return what a user's file, or a module with its packages, brings into a closure.

        These are modules that are no libraries, and declared packages.

        Its own text is not part of it: a digest of that is in the operator's name.
        """
        if isinstance(code, ModuleCode):
            return self._of_packages(code.package)
        texts = {file: text.encode("utf-8", "surrogatepass") for file, text in code.files.items()}
        inside = {file.removesuffix(".py") for file in texts}
        return self._beside(texts, inside, code.shown, f"operator file {code.shown()}")

    def _of_packages(self, package: PackageCode) -> Code:
        inside = {module for tree in package.trees for module in tree.modules}
        found = Code(files={f"{tree.name} (code)": tree.digest for tree in package.trees})
        for tree in package.trees:
            texts = {path: data for path, data in contents.of(tree.digest).items() if path.endswith(".py")}
            shown = f"{tree.path}/{{}}".format if tree.path else str
            found.add(self._beside(texts, inside, shown, f"code {tree.name}"))
        return found

    def _beside(
        self, texts: Mapping[str, bytes], inside: Collection[str], shown: Callable[[str], str], owner: str
    ) -> Code:
        found = Code()
        for file, text in texts.items():
            source = parse_source(text, file.removesuffix(".py").replace("/", "."), False, shown(file))
            found.packages |= {name: package_version(name) or NOT_INSTALLED for name in source.packages}
            for name in source.names:
                top = name.partition(".")[0]
                if top in inside or is_wall(name) or not self._own.follows(name, file):
                    continue
                place = self._finder.place(name)
                if place is not None and not place.trouble and not (place.is_package and place.path is None):
                    found.add(self.of(name, owner))
        return found

    def counts(self, module: str, root: str) -> bool:
        """Return whether a module that `root` may import is part of its closure rather than a library."""
        return self._own.follows(module, root)

    def _walk(self, root: str, owner: str, fields_of: str) -> Code:
        if self._finder.place(root) is None:
            raise InputError(_refusal(owner, root, "no import finds it"))
        code = Code()
        queue, seen = [root], set()
        missing: dict[str, ModulePlace] = {}
        while queue:
            module = queue.pop()
            if module in seen or is_wall(module) or not self._own.follows(module, root):
                continue
            seen.add(module)
            queue.append(module.rpartition(".")[0] or module)  # an import runs the packages around it first
            place = self._finder.place(module)
            if place is None:
                continue
            if place.trouble:
                missing[module] = place
                continue
            source = self._source(place, fields_of if module == root else "")
            if source is None:
                continue
            code.files[place.label] = source.digest
            code.files |= _files_beside(place, source)
            code.packages |= {name: package_version(name) or NOT_INSTALLED for name in source.packages}
            queue += source.names
            queue += [name for name in source.named if self._own.near(name, root)]
            if source.dynamic and module.partition(".")[0] != OURS:
                queue += self._finder.below(module.partition(".")[0])
        for module, place in missing.items():
            if module == root or not code.packages.keys() & set(packages_of(module.partition(".")[0])):
                raise InputError(_refusal(owner, module, str(place.trouble)))
        if not code.files and not is_wall(root):
            raise InputError(_refusal(owner, root, "it is a folder without code of its own"))
        return code

    def _source(self, place: ModulePlace, fields_of: str) -> Source | None:
        if place.path is not None:
            if fields_of:
                return read_source(place.path, place.module, place.is_package, fields_of)
            if place.module not in self._sources:
                self._sources[place.module] = read_source(place.path, place.module, place.is_package)
            return self._sources[place.module]
        if place.text is not None:
            return parse_source(place.text.encode(), place.module, place.is_package, place.module, fields_of)
        return None  # a namespace package runs nothing


@cache
def is_wall(module: str) -> bool:
    """Return whether a module is left out of closures."""
    if any(module == work or module.startswith(f"{work}.") for work in WORK):
        return False
    return any(module == wall or module.startswith(f"{wall}.") for wall in WALLS)


def _refusal(owner: str, module: str, why: str) -> str:
    return (
        f"{owner}: no Python source of {module!r} ({why}): a change of it would go unseen and old results be shown as "
        f"its own; install it with its .py files, or import it in a .py file that names its package in {DECLARATION}"
    )


def _files_beside(place: ModulePlace, source: Source) -> dict[str, str]:
    """Return the data files of its package that a third-party module's string constants name."""
    top = place.module.partition(".")[0]
    if place.path is None or not source.strings or top == OURS:
        return {}
    depth = place.module.count(".") + place.is_package
    folders = [place.path.parents[level] for level in range(max(depth, 1))]
    found: dict[str, str] = {}
    for text in source.strings:
        if not 0 < len(text) < MAX_NAME or "\0" in text or text.startswith(("/", ".")) or ".." in text:
            continue
        for folder in folders:
            for path in _named(folder, text, whole=depth > 0):
                if path.is_file() and path.suffix not in CODE_SUFFIXES:
                    found[f"{top}/{path.relative_to(folders[-1]).as_posix()}"] = file_digest(path)
    return found


def _named(folder: Path, text: str, *, whole: bool) -> list[Path]:
    """Return the paths that a text names below a folder: a file, or if `whole`, a pattern's or a folder's files."""
    if any(mark in text for mark in "*?["):
        try:
            return sorted(folder.glob(text)) if whole else []
        except (ValueError, NotImplementedError):
            return []
    named = folder / text
    return sorted(named.rglob("*")) if whole and named.is_dir() else [named]
