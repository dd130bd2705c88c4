"""What an operator's file declares, read from its syntax tree: functions with their signatures, and classes."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from components.contract.errors import InputError, nearest
from components.contract.operator_files.code import OperatorCode
from components.contract.operator_files.names import check_function_name
from components.contract.operator_packages.code import ModuleCode
from components.contract.python_text import parse

CONFIG = "config"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Function:
    """A function at the top of a file."""

    name: str
    line: int
    doc: str
    positional: tuple[str, ...]
    """Parameters that can be given by position."""
    keyword_only: tuple[str, ...]
    required: frozenset[str]
    """Parameters without a default."""
    by_name: frozenset[str]
    """Parameters that can be given by name."""
    takes_any: bool
    """Whether it takes any further keyword argument."""
    takes_any_position: bool
    """Whether it takes any further positional argument."""
    is_async: bool
    config: str | None
    """Annotation of its keyword-only `config`; None without one, empty without an annotation."""


@dataclass(frozen=True)
class Declared:
    """The top of a file."""

    functions: Mapping[str, Function]
    classes: Mapping[str, ast.ClassDef]
    imported: Mapping[str, str]
    """Name -> "module:name" of what `from module import name` brings in; dots before it begin at `parent`."""
    shown: str
    parent: str = ""
    """The package that relative imports begin in."""
    beside: Callable[[str], Declared | None] = lambda module: None
    """Returns what a module of the same package declares; None for one that is elsewhere."""


@lru_cache(maxsize=64)
def _read(text: str, shown: str) -> Declared:
    tree = parse(text, shown)
    functions = {node.name: _function(node) for node in tree.body if isinstance(node, _FUNCTIONS)}
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    imported = {
        alias.asname or alias.name: f"{'.' * node.level}{node.module}:{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    return Declared(functions, classes, imported, shown)


def declared(code: OperatorCode | ModuleCode) -> Declared:
    """Return what the operator's file, or module, declares."""
    top = _read(code.files[code.file], code.shown())
    if isinstance(code, OperatorCode):
        return top

    def beside(module: str) -> Declared | None:
        found = code.package.module(module)
        return declared(found) if found else None

    return replace(top, parent=code.parent, beside=beside)


def declared_function(code: OperatorCode | ModuleCode, name: str) -> Function:
    """Return a function of the file; raise InputError with the nearest name if there is none."""
    check_function_name(name)
    top = declared(code)
    if name in top.functions:
        return top.functions[name]
    tree = parse(code.files[code.file], code.shown())
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            raise InputError(f"{top.shown}:{node.lineno}: {name} is a class; an operator is a function")
    near = nearest(name, top.functions)
    hint = f"; did you mean {near!r}?" if near else ""
    listed = ", ".join(sorted(top.functions)) or "none"
    raise InputError(f"{top.shown} has no function {name!r} at its top level{hint} (functions: {listed})")


def _function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    arguments = node.args
    positional = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args)]
    keyword_only = [argument.arg for argument in arguments.kwonlyargs]
    required = set(positional[: len(positional) - len(arguments.defaults)])
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    required |= {argument.arg for argument, default in pairs if default is None}
    annotation = next((argument.annotation for argument in arguments.kwonlyargs if argument.arg == CONFIG), None)
    config = None
    if CONFIG in keyword_only:
        config = _text(annotation)
    return Function(
        name=node.name,
        line=node.lineno,
        doc=ast.get_docstring(node) or "",
        positional=tuple(positional),
        keyword_only=tuple(keyword_only),
        required=frozenset(required),
        by_name=frozenset([*(argument.arg for argument in arguments.args), *keyword_only]),
        takes_any=arguments.kwarg is not None,
        takes_any_position=arguments.vararg is not None,
        is_async=isinstance(node, ast.AsyncFunctionDef),
        config=config,
    )


def _text(annotation: ast.expr | None) -> str:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation) if annotation is not None else ""
