"""The settings of an operator in a file, from the class that annotates its `config`, without running the file.

The class's fields are rebuilt from its syntax tree, so that a recipe is checked, planned and fingerprinted from what
is written: types of a short list, and defaults that are literals. The stage validates the same settings again with the
file's own class, and its validators.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from typing import Any, Literal, Optional, Union

from pydantic import Field, create_model
from pydantic.errors import PydanticUserError

from components.contract.errors import InputError, did_you_mean
from components.contract.operator_files.declared import Declared
from components.contract.params import Params
from components.contract.python_text import parse_expression

_TYPES: dict[str, Any] = {
    "int": int,
    "float": float,
    "bool": bool,
    "str": str,
    "None": None,
    "list": list,
    "tuple": tuple,
    "dict": dict,
    "set": set,
    "frozenset": frozenset,
    "Literal": Literal,
    "Optional": Optional,
    "Union": Union,
}
_EXPECTED = "int, float, bool, str, Literal, list, tuple, dict, and these with | None"
MAX_BASES = 8


def settings_class(top: Declared, annotation: str, base: type[Params], line: int) -> type[Params]:
    """Return a class with the fields of the one that `annotation` names in a file.

    Raises an InputError with the file's line for a class that is not a `base`, or that cannot be read without running
    the file.
    """
    if not annotation:
        raise InputError(f"{top.shown}:{line}: its config has no annotation; write config: {base.__name__}")
    found = _class(top, annotation, line, 0)
    if not issubclass(found, base):
        raise InputError(f"{top.shown}:{line}: {annotation} must be a subclass of {base.__module__}.{base.__name__}")
    return found


def _class(top: Declared, name: str, line: int, depth: int) -> type[Params]:
    if depth > MAX_BASES:
        raise InputError(f"{top.shown}:{line}: {name}: its base classes go in a circle, or too deep")
    if name in top.classes:
        return _rebuilt(top, top.classes[name], depth)
    if name in top.imported:
        found = _ours(top.imported[name]) or _beside(top, top.imported[name], line, depth)
        if found is not None:
            return found
    known = [*top.classes, *top.imported]
    raise InputError(
        f"{top.shown}:{line}: {name} is neither a class of this file nor a Params class of posttrain's components"
        f"{did_you_mean(name, known)}"
    )


def _beside(top: Declared, target: str, line: int, depth: int) -> type[Params] | None:
    """Return the class that a module of the same package declares; None if there is no such module."""
    module, _, name = target.partition(":")
    if dots := len(module) - len(module.lstrip(".")):
        steps = top.parent.split(".")
        module = ".".join([*steps[: len(steps) - dots + 1], module.lstrip(".")])
    found = top.beside(module)
    return _class(found, name, line, depth + 1) if found else None


def _ours(target: str) -> type[Params] | None:
    module, _, name = target.partition(":")
    if not module.startswith("components."):
        return None
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    return found if inspect.isclass(found) and issubclass(found, Params) else None


def _rebuilt(top: Declared, node: ast.ClassDef, depth: int) -> type[Params]:
    where = f"{top.shown}:{node.lineno}"
    if len(node.bases) != 1 or not isinstance(node.bases[0], ast.Name) or node.keywords or node.decorator_list:
        raise InputError(f"{where}: {node.name} must have one base class, such as Params, and no decorator")
    base = _class(top, node.bases[0].id, node.lineno, depth + 1)
    fields: dict[str, Any] = {}
    marks: dict[str, Any] = {}
    for statement in node.body:
        place = f"{top.shown}:{statement.lineno}"
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if "ClassVar" in ast.unparse(statement.annotation):
                marks[name] = _value(statement.value, place, name)
            else:
                fields[name] = (_type(statement.annotation, place, name), _default(statement.value, place, name))
    try:
        made = create_model(node.name, __base__=base, __module__=base.__module__, **fields)
    except (PydanticUserError, NameError, TypeError, ValueError) as error:
        raise InputError(f"{where}: {node.name}: {' '.join(str(error).split())[:200]}") from None
    for name, value in marks.items():
        setattr(made, name, value)
    return made


def _type(node: ast.expr, place: str, field: str) -> Any:
    """Return the type that an annotation of the short list names."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = parse_expression(node.value)
    if isinstance(node, ast.Constant) and node.value is None:
        return None
    if isinstance(node, ast.Name) and node.id in _TYPES:
        return _TYPES[node.id]
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return Union[_type(node.left, place, field), _type(node.right, place, field)]  # noqa: UP007 - of values
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id in _TYPES:
        outer = _TYPES[node.value.id]
        items = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if outer is Literal:
            return Literal[tuple(_value(item, place, field) for item in items)]
        inner = tuple(... if _is_dots(item) else _type(item, place, field) for item in items)
        return outer[inner if len(inner) > 1 else inner[0]]
    raise InputError(
        f"{place}: the type of setting {field!r} is {ast.unparse(node)}, which cannot be checked without running the "
        f"file; use {_EXPECTED}"
    )


def _is_dots(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...


def _default(node: ast.expr | None, place: str, field: str) -> Any:
    """Return a field's default: a literal, or Field(...) of literals."""
    if node is None:
        return ...
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Field":
        values = {str(item.arg): _value(item.value, place, field) for item in node.keywords}
        first = [_value(item, place, field) for item in node.args[:1]]
        try:
            return Field(*first, **values)
        except TypeError as error:
            raise InputError(f"{place}: {field}: {error}") from None
    return _value(node, place, field)


def _value(node: ast.expr | None, place: str, field: str) -> Any:
    """Return the value of a literal, or of frozenset or tuple of one."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("frozenset", "tuple"):
        inner = _value(node.args[0], place, field) if node.args else ()
        return frozenset(inner) if node.func.id == "frozenset" else tuple(inner)
    try:
        return ast.literal_eval(node) if node is not None else None
    except ValueError:
        text = ast.unparse(node) if node is not None else ""
        raise InputError(
            f"{place}: {field}: its value {text} is no literal, and the file is not run to read it; write the value"
        ) from None
