"""Programs in Python and in other languages, run on many tests at once; expected values never get in here."""

from __future__ import annotations

import json
from typing import Any

from components.runtime.sandbox.inside.programs import run_command, run_python
from components.runtime.sandbox.values import encode

SHOWN = 200


def call(argument: dict[str, Any]) -> list[dict[str, Any]]:
    """Return {"value": ...} or {"raised": text} for each of `calls` of the function `entry` that `source` defines.

    What the source itself raises is raised.
    """
    source = f"{argument['source']}\n"
    # The module is not named "__main__", so that code below `if __name__ == "__main__"` does not run.
    names: dict[str, Any] = {"__name__": "program", "__builtins__": __builtins__}
    exec(compile(source, "<program>", "exec", dont_inherit=True), names)
    if argument["entry"] not in names:
        raise NameError(f"the program defines no {argument['entry']}")
    function, results = names[argument["entry"]], []
    for one in argument["calls"]:
        try:
            results.append({"value": json.loads(encode(function(*one["args"], **one["kwargs"])))})
        except MemoryError:
            raise
        except BaseException as error:  # SystemExit too: the next call is another test
            results.append({"raised": f"{type(error).__name__}: {error}"[:SHOWN]})
    return results


def run(argument: dict[str, Any]) -> None:
    """Run `source` as a program that reads `stdin`; what it prints is in the reply. Leaving with 0 is no error."""
    try:
        run_python(argument)
    except SystemExit as error:
        if error.code not in (None, 0):
            raise


def command(argument: dict[str, Any]) -> list[dict[str, Any]]:
    """Build once, then run once for each of `inputs`: {"value": stdout}, or {"raised": why}.

    `files`, `build` and `run` (lists of words) are of a language's table; `most` bounds what a run may print.
    """
    most, files = argument["most"], argument["files"]
    if argument["build"]:
        built = run_command({"files": files, "commands": [argument["build"]], "most": most})
        if built["exit"]:
            raise SyntaxError(f"it does not compile: exit code {built['exit']}")
        files = {}
    results = []
    for text in argument["inputs"]:
        done = run_command({"files": files, "commands": [argument["run"]], "stdin": text, "most": most})
        ended = f"exit code {done['exit']}"
        results.append({"raised": ended} if done["exit"] else {"value": done["stdout"]})
    return results
