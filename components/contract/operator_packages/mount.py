"""Code trees on the import path: of the process that runs a stage, and only when one of their operators is called.

The trees come first on the path, so that a working copy beside the recipe is never taken in their place. Only .py files
are imported, and nothing is written beside them: they lie in the store, or in its local copy.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import FileFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType

from components.contract.errors import InputError
from components.contract.operator_packages import contents
from components.contract.operator_packages.code import SUFFIX, CodeTree, ModuleCode, PackageCode
from components.contract.operator_packages.rules import check_modules

_mounted: dict[str, CodeTree] = {}
"""Module at the top of a tree -> its tree."""
_roots: dict[str, CodeTree] = {}
"""Folder on the import path -> its tree."""


class _Source(SourceFileLoader):
    """Imports a .py file and keeps no compiled copy of it."""

    def _cache_bytecode(self, source_path: str, cache_path: str, data: bytes) -> None:
        """Write nothing."""


def load(code: ModuleCode) -> ModuleType:
    """Return a module of a package, imported on first use; raises what its top level raises."""
    mount(code.package)
    return importlib.import_module(code.file)


def mount(code: PackageCode) -> None:
    """Put all trees of a package on this process's import path, once.

    Raises InputError if one of their modules is there already with other content, or is no module of theirs.
    """
    for tree in code.trees:
        waiting = [module for module in tree.modules if _mounted.get(module) != tree]
        for module in waiting:
            if module in _mounted and _mounted[module].digest != tree.digest:
                both = f"{_mounted[module].digest[:12]} and {tree.digest[:12]}"
                raise InputError(
                    f"{tree.name}: this stage would need two versions of {module!r} ({both}): "
                    "rows that another run made name a verifier of the other; make them again"
                )
        if not waiting or all(module in _mounted for module in waiting):
            continue
        check_modules(tree, tree.name)
        _refuse_loaded(tree)
        root = str(contents.folder(tree.digest))
        _roots[root] = tree
        if _finder not in sys.path_hooks:
            sys.path_hooks.insert(0, _finder)
        sys.path_importer_cache.pop(root, None)
        sys.path.insert(0, root)
        _mounted.update(dict.fromkeys(tree.modules, tree))
    importlib.invalidate_caches()


def _refuse_loaded(tree: CodeTree) -> None:
    for module in tree.modules:
        if module in sys.modules:
            place = getattr(sys.modules[module], "__file__", None) or "another place"
            raise InputError(f"{tree.name}: its module {module!r} is already imported from {place}; rename it")


def _finder(path: str) -> FileFinder:
    if not any(path == root or path.startswith(f"{root}/") for root in _roots):
        raise ImportError(f"{path} is no code of a recipe")
    return FileFinder(path, (_Source, [SUFFIX]))


def shown_place(file: str) -> str | None:
    """Return where a file of a tree lay when the recipe was read; None for a file of no tree."""
    for root, tree in _roots.items():
        if file.startswith(f"{root}/"):
            relative = Path(file).relative_to(root).as_posix()
            return f"{tree.path}/{relative}" if tree.path else relative
    return None
