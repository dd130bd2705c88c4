"""Python source, parsed and never run."""

from __future__ import annotations

import ast
import gc
import threading

from components.contract.errors import InputError

_PARSING = threading.Lock()


def parse_module(text: str | bytes, filename: str = "<unknown>") -> ast.Module:
    """Return the syntax tree of a module, safe in threads; raises what `ast.parse` raises."""
    tree = _tree(text, filename, "exec")
    assert isinstance(tree, ast.Module)
    return tree


def parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of one expression, safe in threads; raises what `ast.parse` raises."""
    tree = _tree(text, "<unknown>", "eval")
    assert isinstance(tree, ast.Expression)
    return tree.body


def _tree(text: str | bytes, filename: str, mode: str) -> ast.AST:
    """Parse, one thread at a time and without garbage collection meanwhile.

    CPython 3.11 before 3.11.8 counts the depth of a tree for all threads together (gh-106905): where a collection
    lets another thread parse in the middle of a parse, one of them ends with a SystemError.
    """
    with _PARSING:
        collects = gc.isenabled()
        gc.disable()
        try:
            tree: ast.AST = ast.parse(text, filename=filename, mode=mode)
        finally:
            if collects:
                gc.enable()
    return tree


def parse(text: str, shown: str) -> ast.Module:
    """Return the syntax tree of a user's file; raise an InputError with file and line if it is not Python."""
    try:
        return parse_module(text, shown)
    except SyntaxError as error:
        raise InputError(f"{shown}:{error.lineno or 1}: not Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{shown}: not readable as Python: {error}") from None
