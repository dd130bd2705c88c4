"""Operators in users' files, as recipes name them: `./my_reward.py:brevity`, relative to the file that says so; and
those in the packages that the recipe's `code` names: `my_package.rewards:brevity`.

A name is read with the recipe: the file's text is taken, checked without running it, and the name becomes one that
says the content, `my_reward.py:brevity@<digest>`. What the recipe's jobs need of these files travels with them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from components.contract.errors import InputError
from components.contract.operator_files import library
from components.contract.operator_files.code import OperatorCode
from components.contract.operator_files.declared import declared_function
from components.contract.operator_files.gather import read_code
from components.contract.operator_files.library import UserCode
from components.contract.operator_files.names import (
    PackageName,
    WrittenName,
    package_name,
    travel_name,
    written_name,
)
from components.contract.terminal import visible_line
from pipelines.language.document import display_path
from pipelines.language.nodes import UNKNOWN, Node, mapping, sequence
from pipelines.language.problems import Problems
from pipelines.language.uris import home_path
from pipelines.recipe.packages import Packages


class OperatorFiles:
    """Reads the operator files of one recipe, each once."""

    def __init__(
        self,
        folders: Mapping[str, Path],
        problems: Problems,
        carried: Mapping[str, OperatorCode] | None = None,
        packages: Packages | None = None,
    ) -> None:
        """`folders` are those of the recipe's files, by label. With `carried`, by path as written, no file is read."""
        self._folders, self._problems, self._carried = folders, problems, carried
        self.packages = packages or Packages()
        self._read: dict[Path, OperatorCode] = {}
        self.named: dict[str, OperatorCode] = {}
        """Path as written -> the code behind it."""
        self.ambiguous: set[str] = set()
        """Paths that mean different files in different files of the recipe."""
        self.outside: set[str] = set()
        """Paths that --set or a trigger gave, relative to the working folder."""

    def place(self, node: Node) -> Node:
        """Return the node with every file's name replaced by one that says its content; problems are noted."""
        if isinstance(node.value, dict):
            entries = {name: self.place(child) for name, child in node.value.items()}
            if all(entries[name] is child for name, child in node.value.items()):
                return node
            return mapping(entries, node.mark, node.key)
        if isinstance(node.value, list):
            items = [self.place(child) for child in node.value]
            if all(new is old for new, old in zip(items, node.value, strict=True)):
                return node
            return sequence(items, node.mark, node.key)
        if not isinstance(node.value, str):
            return node
        try:
            placed = self._placed(node.value, node)
        except InputError as error:
            self._problems.add(node.mark, visible_line(str(error)))
            return replace(node, value=UNKNOWN)
        if placed is None and package_name(node.value) and not self.packages.whole:
            return replace(node, value=UNKNOWN)  # it may be in what could not be read, which is told
        return node if placed is None else replace(node, value=placed)

    def _placed(self, text: str, node: Node) -> str | None:
        """Return the name by content of what a text names; None for a text that names neither file nor package."""
        inside = package_name(text)
        if inside and (placed := self._in_package(inside)):
            return placed
        name = written_name(text)
        if name is None:
            return None
        code = self._code(name, node)
        declared_function(code, name.function)
        return code.name(name.function)

    def _in_package(self, name: PackageName) -> str | None:
        code = self.packages.code_of(name.module)
        if code is None:
            return None
        module = code.needed_module(name.module)
        declared_function(module, name.function)
        library.keep([code])
        return module.name(name.function)

    def _code(self, name: WrittenName, node: Node) -> OperatorCode:
        if self._carried is not None:
            if name.path not in self._carried:
                raise InputError(f"{name.path}: this pipeline does not carry the file; compile the recipe with it")
            code = self._carried[name.path]
        else:
            code = self._from_disk(name, node)
        if self.named.setdefault(name.path, code).digest != code.digest:
            self.ambiguous.add(name.path)
        if node.file not in self._folders:
            self.outside.add(name.path)
        library.keep([code])
        return code

    def _from_disk(self, name: WrittenName, node: Node) -> OperatorCode:
        if "://" in name.path:
            raise InputError(f"{name.path}: an operator's file is named by its path on this machine, not by an address")
        path = self._folders.get(node.file, Path()).absolute() / home_path(name.path)
        if path not in self._read:
            self._read[path] = read_code(path, display_path(path))
        return self._read[path]


def codes_in(params: object) -> Iterator[UserCode]:
    """Yield the code of every operator file, and of every package, that placed parameters name."""
    if isinstance(params, Mapping):
        for value in params.values():
            yield from codes_in(value)
    elif isinstance(params, list | tuple):
        for value in params:
            yield from codes_in(value)
    elif isinstance(params, str) and (name := travel_name(params)) and (code := library.find(name.digest)):
        yield code
