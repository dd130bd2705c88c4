"""posttrain: the command line. Exit codes: 0 well, 1 failed, 2 bad input, 3 waits for approval, 130 interrupted."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from components.contract.errors import PosttrainError
from pipelines.cli.parser import build_parser

DEBUG = "POSTTRAIN_DEBUG"
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; errors are one message on stderr, never a traceback."""
    arguments = build_parser().parse_args(argv)
    module, _, function = arguments.handler.partition(":")
    try:
        return int(getattr(importlib.import_module(module), function)(arguments))
    except PosttrainError as error:
        return _refuse(error, error.exit_code)
    except KeyboardInterrupt:
        print("posttrain: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:  # `posttrain list | head`: whoever read has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:  # the process boundary: people get one line, developers a traceback when they ask for it
        if os.environ.get(DEBUG):
            raise
        text = " ".join(str(error).split()) or "no message"
        hint = f"this is a mistake in posttrain or its environment; {DEBUG}=1 shows where"
        print(f"posttrain: {type(error).__name__}: {text} ({hint})", file=sys.stderr)
        return 1


def _refuse(error: PosttrainError, code: int) -> int:
    if os.environ.get(DEBUG):
        raise error
    from pipelines.problems import RecipeErrors

    # lines that begin with file:line:column are left as they are, so that editors can jump there
    print(str(error) if isinstance(error, RecipeErrors) else f"posttrain: {error}", file=sys.stderr)
    return code
