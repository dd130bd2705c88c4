"""Exceptions of operators, in one line for people: the operator, what it raised, and in which line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from components.contract.operator_files.loading import place_of
from components.contract.terminal import short_line

MAX_CHARS = 300


def in_words(error: BaseException) -> str:
    """Return an exception's type and text in one line of bounded length, without control characters."""
    return f"{type(error).__name__}: {short_line(str(error), MAX_CHARS) or 'no message'}"


def fails_again(error: BaseException) -> bool:
    """Return whether the same code, called again with the same arguments, surely raises this again.

    That holds for Python's own errors of logic; not for what the machine, a service or a library said.
    """
    outside = OSError | MemoryError | RuntimeError | SystemError
    return type(error).__module__ == "builtins" and not isinstance(error, outside)


def place_in(function: Callable[..., Any], error: BaseException) -> str | None:
    """Return file and line of the innermost frame of an exception in a user's file, else in a function's module."""
    if place := place_of(error):
        return place
    module = str(getattr(inspect.unwrap(function), "__module__", ""))
    found, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_globals.get("__name__") == module:
            found = f"{module.replace('.', '/')}.py:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
