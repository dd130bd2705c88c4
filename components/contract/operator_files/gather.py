"""Reading an operator's file, with the modules beside it that it imports. Nothing is executed.

An operator's file may import the standard library, installed packages, posttrain's `components`, and modules that lie
in its own folder as single .py files. Those travel with it. It may not import a folder beside it, nor read files
through __file__: neither is there where the stage runs.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from components.contract.errors import InputError, schema_problems
from components.contract.operator_files.code import MAX_BYTES, OperatorCode
from components.contract.operator_files.names import check_file_name
from components.contract.python_text import parse
from components.contract.small_files import read_small_file

MAX_FILES = 20


def read_code(path: Path, shown: str = "") -> OperatorCode:
    """Return the code of the file at `path`; messages and tracebacks call it `shown`.

    Raises an InputError, with file and line where there is one, for a file that is missing, too large, not Python, or
    imports what cannot travel.
    """
    shown = shown or str(path)
    if "://" in str(path):
        raise InputError(f"{shown}: an operator's file is on this machine: name it by its path, not by an address")
    check_file_name(path.name)
    files: dict[str, str] = {}
    waiting = [path.name]
    while waiting:
        name = waiting.pop()
        if name in files:
            continue
        label = str(Path(shown).with_name(name)) if name != path.name else shown
        files[name] = _read(path.with_name(name), label)
        waiting += _beside(path.parent, parse(files[name], label), label)
        if len(files) > MAX_FILES:
            raise InputError(f"{shown}: it imports more than {MAX_FILES} files of its folder")
    try:
        return OperatorCode(file=path.name, files=files, path=shown)
    except ValidationError as error:
        raise InputError(f"{shown}: {schema_problems(error)}") from None


def _read(path: Path, shown: str) -> str:
    try:
        data = read_small_file(path, 1 << 20)
    except ValueError as error:
        raise InputError(f"{shown}: cannot be read: {error}") from None
    if len(data) > MAX_BYTES:
        raise InputError(f"{shown}: {len(data)} bytes; an operator's file and its modules may have {MAX_BYTES}")
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{shown}: not UTF-8: {error.reason} at byte {error.start}") from None


def _beside(folder: Path, tree: ast.Module, shown: str) -> Iterator[str]:
    """Yield the files of the folder that a module imports; raise InputError for what cannot travel."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "__file__":
            raise InputError(
                f"{shown}:{node.lineno}: __file__: files beside an operator's file do not travel with it; put the data "
                "into the dataset's columns, or into a .py module of the same folder"
            )
        for module, level in _imported(node):
            yield from _travels(folder, module, level, f"{shown}:{getattr(node, 'lineno', 1)}")


def _imported(node: ast.AST) -> list[tuple[str, int]]:
    """Return (module, dots before it) for each module that a statement imports."""
    if isinstance(node, ast.Import):
        return [(alias.name, 0) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        if node.module is None:
            return [(alias.name, node.level) for alias in node.names]
        return [(node.module, node.level)]
    return []


def _travels(folder: Path, module: str, level: int, where: str) -> Iterator[str]:
    top, _, rest = module.partition(".")
    if level > 1:
        raise InputError(f"{where}: imports from the folder above; an operator's file takes modules of its own folder")
    beside = folder / f"{top}.py"
    if level == 0 and top == "components":
        return
    if level == 0 and top in sys.stdlib_module_names:
        if beside.is_file():
            raise InputError(f"{where}: imports {top}, and {top}.py beside it has a standard module's name; rename it")
        return
    if beside.is_file() and not rest:
        yield beside.name
    elif level or _is_package(folder / top):
        missing = f"no {top}.py" if not (folder / top).is_dir() else f"{top} is a folder"
        raise InputError(
            f"{where}: imports {module} from beside it: {missing}; single .py files of its own folder travel with an "
            "operator's file, folders do not: install a package, or put the code beside it"
        )


def _is_package(folder: Path) -> bool:
    return folder.is_dir() and any(folder.glob("*.py"))
