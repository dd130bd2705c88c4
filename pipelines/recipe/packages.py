"""A recipe's `code`: the package folders, projects, wheels and installed distributions whose operators it may name.

    code: [./my_package, ./dist/rules-1.0-py3-none-any.whl, installed-name]

Each is read with the recipe and checked without running it. What a stage's operators need of them travels with its job,
by digest; a stage that names none of their operators gets none of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from packaging.utils import canonicalize_name

from components.contract.errors import InputError
from components.contract.operator_packages.assemble import assembled
from components.contract.operator_packages.code import CodeTree, PackageCode
from components.contract.operator_packages.folder import read_folder, read_installed
from components.contract.operator_packages.rules import check_modules
from components.contract.operator_packages.wheel import PIN, SUFFIX, Wheel, pinned_path, read_wheel
from components.contract.terminal import visible_line
from components.runtime.closure.locate import is_library, package_version
from pipelines.language.document import display_path
from pipelines.language.nodes import Node
from pipelines.language.problems import Mark, Problems, shown
from pipelines.language.uris import home_path

EXPECTED = "expected a list of package folders, wheels and installed packages, such as [./my_package, ./dist/x.whl]"


class Packages:
    """The trees that a recipe's `code` names, and what each of its operators needs of them."""

    def __init__(self, trees: Mapping[str, CodeTree] | None = None, *, whole: bool = True) -> None:
        """`trees` are those of the recipe, by what it writes; not `whole`: some could not be read."""
        self.trees, self.whole = dict(trees or {}), whole
        self._codes: dict[str, PackageCode] = {}

    def code_of(self, module: str) -> PackageCode | None:
        """Return the code of operators in a module; None if no tree of the recipe has it."""
        top, known = module.partition(".")[0], list(self.trees.values())
        for tree in known:
            if top in tree.modules:
                if tree.digest not in self._codes:
                    self._codes[tree.digest] = assembled(tree, known)
                return self._codes[tree.digest]
        return None


def read_packages(
    root: Node, folders: Mapping[str, Path], problems: Problems, carried: Mapping[str, CodeTree] | None = None
) -> Packages:
    """Return the packages that a recipe's `code` names; each mistake is noted at its line.

    `folders` are those of the recipe's files, by label. With `carried`, by what is written, nothing is read.
    """
    node = root.child("code")
    if node is None or node.value is None:
        return Packages()
    entries = node.value if isinstance(node.value, list) else None
    if entries is None or not all(isinstance(one.value, str) and one.value.strip() for one in entries):
        problems.add(node.mark, f"code: got {shown(node.plain())}, {EXPECTED}")
        return Packages(whole=False)
    reader = _Reader(folders, carried)
    bad = 0
    for entry in entries:
        try:
            reader.add(entry)
        except InputError as error:
            bad += 1
            problems.add(entry.mark, f"code: {visible_line(str(error))}")
    for mark, text in reader.unmet():
        problems.add(mark, f"code: {text}")
    return Packages(reader.trees, whole=not bad)


class _Reader:
    def __init__(self, folders: Mapping[str, Path], carried: Mapping[str, CodeTree] | None) -> None:
        self._folders, self._carried = folders, carried
        self.trees: dict[str, CodeTree] = {}
        self._wheels: list[tuple[Node, Wheel, bool]] = []

    def add(self, entry: Node) -> None:
        """Read one entry; raise InputError if it cannot travel or has a module that another one has."""
        text = str(entry.value)
        tree = self._carried_tree(text) if self._carried is not None else self._read(text, entry)
        for module in tree.modules:
            other = next((one for one in self.trees.values() if module in one.modules and one != tree), None)
            if other is not None:
                raise InputError(f"{tree.name} and {other.name} both have a module {module!r}; name one of them")
        self.trees[text] = tree

    def unmet(self) -> list[tuple[Mark, str]]:
        """Return what wheels require and nothing gives, and those that others require and that are not pinned."""
        given = {canonicalize_name(wheel.tree.distribution): (node, wheel, pin) for node, wheel, pin in self._wheels}
        found = []
        for node, wheel, _ in self._wheels:
            for need in wheel.requires:
                name = canonicalize_name(need.name)
                version = given[name][1].version if name in given else package_version(need.name)
                if version is None or not need.specifier.contains(version, prereleases=True):
                    has = f", and there is {need.name} {version}" if version else ""
                    what = f"{wheel.tree.name} requires {visible_line(str(need))}{has}"
                    found.append((node.mark, f"{what}; list its wheel, too: nothing is fetched where a stage runs"))
                elif name in given and not given[name][2]:
                    other, sha256 = given[name][0], given[name][1].sha256
                    what = f"{other.value}: {wheel.tree.name} requires it, so it is pinned"
                    found.append((other.mark, f"{what}: write {other.value}#sha256={sha256}"))
        return list(dict.fromkeys(found))

    def _carried_tree(self, text: str) -> CodeTree:
        assert self._carried is not None
        if text not in self._carried:
            raise InputError(f"{text}: this pipeline does not carry it; compile the recipe with it")
        return self._carried[text]

    def _read(self, text: str, entry: Node) -> CodeTree:
        path, pin = pinned_path(text)
        if not path:
            raise InputError(f"{text}: there is no path before {PIN}")
        if "://" in path:
            raise InputError(f"{path}: code lies on this machine: a path, or the name of an installed package")
        if "/" not in path and not path.endswith(SUFFIX) and path not in (".", ".."):
            tree = read_installed(path, path)
        else:
            place = self._folders.get(entry.file, Path()).absolute() / home_path(path)
            tree = self._from_path(place, display_path(place), pin, entry)
        check_modules(tree, tree.name)
        if hidden := next((one for one in tree.modules if is_library(one)), None):
            raise InputError(f"{tree.name}: its module {hidden!r} has the name of a library of the stages; rename it")
        return tree

    def _from_path(self, place: Path, label: str, pin: str, entry: Node) -> CodeTree:
        if place.name.endswith(SUFFIX):
            wheel = read_wheel(place, label, pin)
            self._wheels.append((entry, wheel, bool(pin)))
            return wheel.tree
        if pin:
            raise InputError(f"{label}: only a wheel has a sha256 to pin; a folder is pinned by its content anyway")
        if not place.is_dir():
            raise InputError(f"{label}: no such package folder or wheel")
        return read_folder(place, label)
