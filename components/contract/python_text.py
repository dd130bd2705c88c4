"""Python source of users, parsed and never run."""

from __future__ import annotations

import ast

from components.contract.errors import InputError


def parse(text: str, shown: str) -> ast.Module:
    """Return the syntax tree of a file; raise an InputError with file and line if it is not Python."""
    try:
        return ast.parse(text, filename=shown)
    except SyntaxError as error:
        raise InputError(f"{shown}:{error.lineno or 1}: not Python: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{shown}: not readable as Python: {error}") from None
