"""Trusted functions that run programs: Python source, and commands of other languages."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from typing import Any

PROGRAM = "<program>"
CHUNK = 1 << 16


def echo(argument: Any) -> Any:
    """Return the argument."""
    return argument


def run_python(argument: dict[str, Any]) -> Any:
    """Execute `source` as a program; return what `entry` gives for `arguments`, or None without an entry.

    `stdin` is what the program reads; what it prints is in the reply. What the program raises is the run's.
    """
    if argument.get("stdin"):
        _give_stdin(argument["stdin"])
    code = compile(argument["source"], PROGRAM, "exec", dont_inherit=True)
    names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
    exec(code, names)
    entry = argument.get("entry")
    if not entry:
        return None
    if entry not in names:
        raise NameError(f"the program defines no {entry}")
    return names[entry](*argument.get("arguments", ()))


def run_command(argument: dict[str, Any]) -> dict[str, Any]:
    """Run one or more commands in turn, each a list of words; stop at the first that fails.

    `files` (name to text) are written first; the last command reads `stdin`. `makes` names the executables that
    commands before the last one write: under Landlock nobody could make a file executable later. `most` bounds the
    bytes kept of stdout; a command that prints more is ended. Returns `exit` (negative for a signal) and `stdout` of
    the last command, and `failed`: None, or the place of a command that failed before it, whose stdout with stderr
    these are then.
    """
    for name, text in argument.get("files", {}).items():
        with open(os.path.basename(name), "w") as file:
            file.write(text)
    for name in argument.get("makes", ()):
        os.close(os.open(os.path.basename(name), os.O_CREAT | os.O_WRONLY, 0o700))
    *before, last = argument["commands"]
    for place, command in enumerate(before):
        done = _run(command, "", argument["most"], subprocess.STDOUT)
        if done["exit"]:
            return {**done, "failed": place}
    return {**_run(last, argument.get("stdin", ""), argument["most"], None), "failed": None}


def _run(command: list[str], stdin: str, most: int, stderr: int | None) -> dict[str, Any]:
    if stdin:
        _give_stdin(stdin)
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr)
    assert process.stdout is not None
    kept = process.stdout.read(most + 1)
    if len(kept) > most:
        process.kill()
    process.stdout.close()
    return {"exit": process.wait(), "stdout": kept[:most].decode("utf-8", "replace")}


def _give_stdin(text: str) -> None:
    with open("stdin", "w+b") as file:
        file.write(text.encode("utf-8", "replace"))
        file.seek(0)
        os.dup2(file.fileno(), 0)
    with contextlib.suppress(OSError):  # under Landlock nothing can be deleted
        os.unlink("stdin")
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
