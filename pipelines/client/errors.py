"""Errors of the notebook: the command line's messages as exceptions, and in a notebook the message alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from components.contract.errors import PosttrainError
from components.contract.terminal import visible

P = ParamSpec("P")
T = TypeVar("T")


class RunInterrupted(KeyboardInterrupt):
    """The run was stopped, and can go on: the same call resumes it."""


def told_plainly(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function's errors end at its caller: a notebook shows the message, a script no frames of ours."""

    @wraps(function)
    def call(*arguments: P.args, **options: P.kwargs) -> T:
        try:
            return function(*arguments, **options)
        except (PosttrainError, RunInterrupted) as error:
            told = f"{type(error).__name__}: {visible(str(error))}"
            error._render_traceback_ = lambda: [told]  # type: ignore[union-attr]  # IPython asks for it
            raise error.with_traceback(None) from None

    return call
