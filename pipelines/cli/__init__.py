"""posttrain: the command line. Exit codes: 0 success, 1 failed, 2 bad input, 3 needs approval, 130 interrupted."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from components.contract.errors import PosttrainError
from components.contract.terminal import print_error, visible
from pipelines.cli.parser import parse

DEBUG = "POSTTRAIN_DEBUG"
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are one message on stderr, never a traceback."""
    if sys.stdout is None:  # a script closed it
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for as long as the process lives
    try:
        try:
            return _carry_out(argv)
        finally:
            sys.stdout.flush()  # here, where a failure can still be reported
    except BrokenPipeError:  # `posttrain list | head`: the reader has closed the pipe
        _drop_output()
        return 0
    except OSError as error:
        _drop_output()
        print(f"posttrain: cannot write the output: {error.strerror or error}", file=sys.stderr)
        return 1


def _carry_out(argv: Sequence[str] | None) -> int:
    try:
        arguments = parse(argv)
    except PosttrainError as error:  # a package that registers something invalid
        print_error(error)
        return error.exit_code
    module, _, function = arguments.handler.partition(":")
    try:
        return int(getattr(importlib.import_module(module), function)(arguments))
    except PosttrainError as error:
        return _refuse(error, arguments)
    except KeyboardInterrupt:
        print("posttrain: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except Exception as error:  # the process boundary: users get one line, developers a traceback on request
        if isinstance(error, OSError) and error.filename is None:
            print(flush=True)  # raises again if the output itself failed
        if os.environ.get(DEBUG):
            raise
        text = " ".join(str(error).split()) or "no message"
        hint = f"this is a mistake in posttrain or its environment; {DEBUG}=1 shows where"
        print_error(f"{type(error).__name__}: {text} ({hint})")
        return 1


def _refuse(error: PosttrainError, arguments: argparse.Namespace) -> int:
    if os.environ.get(DEBUG):
        raise error
    from pipelines.cli.output import print_json, problems_json
    from pipelines.language.problems import RecipeErrors

    if vars(arguments).get("json"):
        print_json({"problems": problems_json(error)})
        return error.exit_code
    # lines that begin with file:line:column stay unchanged, so that editors can jump there
    if isinstance(error, RecipeErrors):
        print(visible(str(error)), file=sys.stderr)
    else:
        print_error(error)
    return error.exit_code


def _drop_output() -> None:
    """Discard unwritten output, so that the interpreter's exit does not fail on it again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
