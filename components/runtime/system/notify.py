"""Notifications: a command of the user's or the deployment's own is told of an alarm, a failure or an open question.

The command comes from the environment alone (POSTTRAIN_NOTIFY), never from a recipe, which someone else may have
written. It is started without a shell, and gets the event as JSON on its standard input, never in its arguments.
Whatever becomes of it, the run goes on.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from threading import Thread
from typing import Any

from components.contract.terminal import print_error, short_line

COMMAND = "POSTTRAIN_NOTIFY"
THREAD = "posttrain-notify"
LIMIT_SECONDS = 10.0
"""How long the command may take; it is killed with all that it started."""
SHOWN_OF_AN_ERROR = 200


def is_set(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether there is a command."""
    return bool(environ.get(COMMAND, "").strip())


def notify(event: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Thread | None:
    """Start the command with an event, without waiting for it; None if no command is set.

    The process does not end before the command has, or its time is up.
    """
    if not is_set(environ):
        return None
    thread = Thread(target=_tell, args=(environ[COMMAND], json.dumps(event)), name=THREAD)
    thread.start()
    return thread


def _tell(text: str, event: str) -> None:
    try:
        problem = _run(shlex.split(text), event)
    except (OSError, ValueError) as error:  # no such program, or quotes that do not close
        problem = str(error)
    if problem:
        with suppress(OSError, ValueError):  # standard error may be closed by now
            print_error(f"{COMMAND}: {short_line(problem, SHOWN_OF_AN_ERROR)}")


def _run(command: list[str], event: str) -> str:
    """Run the command; return what went wrong, empty if nothing did."""
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        _, errors = process.communicate(event.encode(), timeout=LIMIT_SECONDS)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"took longer than {LIMIT_SECONDS:g} s, and was ended"
    return f"exit code {process.returncode}: {errors.decode(errors='replace').strip()}" if process.returncode else ""
