"""Which trees of a recipe an operator needs: its own, and those that this one's files import, at any depth."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from components.contract.errors import InputError
from components.contract.operator_packages import contents
from components.contract.operator_packages.code import SUFFIX, CodeTree, PackageCode
from components.contract.python_text import parse


def assembled(tree: CodeTree, known: Sequence[CodeTree]) -> PackageCode:
    """Return the code of operators of `tree`, of all that a recipe names, in the order in which the recipe does.

    Raises InputError, with file and line, for a file that is not Python.
    """
    needed = [tree]
    for one in needed:  # which grows meanwhile
        tops = imported_tops(one)
        needed += [other for other in known if other not in needed and tops & set(other.modules)]
    return PackageCode(trees=(tree, *(one for one in known if one in needed and one != tree)))


def imported_tops(tree: CodeTree) -> set[str]:
    """Return the first parts of the modules that a tree's files import, or that a text of theirs may name."""
    found: set[str] = set()
    for path, data in contents.of(tree.digest).items():
        if not path.endswith(SUFFIX):
            continue
        where = f"{tree.path}/{path}" if tree.path else path
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(f"{where}: not UTF-8: {error.reason} at byte {error.start}") from None
        for node in ast.walk(parse(text, where)):
            found.update(name.partition(".")[0] for name in _names(node))
    return found


def _names(node: ast.AST) -> Iterable[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module] if node.module and not node.level else []
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 200:
        return [node.value.partition(":")[0]]  # importlib.import_module("other.rules")
    return []
