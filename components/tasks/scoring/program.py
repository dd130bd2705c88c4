"""Programs in Python and in other languages, run on many tests at once; expected values never get in here."""

from __future__ import annotations

import bisect
import builtins
import collections
import functools
import heapq
import itertools
import json
import math
import re
import string
import sys
import typing
from typing import Any

from components.runtime.sandbox.inside.programs import run_command, run_python
from components.runtime.sandbox.values import encode

SHOWN = 200
SITE = {"exit": sys.exit, "quit": sys.exit}
"""What Python adds to the built-in names where it starts for people."""
GIVEN = (typing, collections, functools, itertools, heapq, bisect)
PRELUDE = {
    **{
        name: getattr(module, name)
        for module in GIVEN
        for name in getattr(module, "__all__", vars(module))
        if name[0] != "_"
    },
    **{module.__name__: module for module in (math, re, string, sys, collections, itertools, functools, heapq, bisect)},
}
"""Names that judges of such problems import before a function or a class Solution: `List`, `Counter`, `math`."""


def call(argument: dict[str, Any]) -> list[dict[str, Any]]:
    """Return {"value": ...} or {"raised": text} for each of `calls` of the function `entry` that `source` defines.

    What the source itself raises is raised.
    """
    source = f"{argument['source']}\n"
    # They are built-in names here: a program's own names, and what it defines at all, stay what they are. The module
    # is not named "__main__", so that code below `if __name__ == "__main__"` does not run.
    given = {**PRELUDE, **SITE, **vars(builtins)}
    names: dict[str, Any] = {"__name__": "program", "__builtins__": given}
    try:
        exec(compile(source, "<program>", "exec", dont_inherit=True), names)
    except SystemExit as error:  # a program that ends with exit() has defined its function by then
        if error.code not in (None, 0):
            raise
    function, results = _entry(names, argument["entry"]), []
    for one in argument["calls"]:
        try:
            value = function(*one["args"], **one["kwargs"])
            if isinstance(value, range):
                raise TypeError("a range is no list")
            results.append({"value": json.loads(encode(value))})
        except MemoryError:
            raise
        except BaseException as error:  # SystemExit too: the next call is another test
            results.append({"raised": f"{type(error).__name__}: {error}"[:SHOWN]})
    return results


def _entry(names: dict[str, Any], entry: str) -> Any:
    """Return the function of that name, or the method of a new Solution for each call."""
    if entry in names:
        return names[entry]
    solution = names.get("Solution")
    if not isinstance(solution, type) or not hasattr(solution, entry):
        raise NameError(f"the program defines no {entry}")
    return lambda *args, **kwargs: getattr(solution(), entry)(*args, **kwargs)


def run(argument: dict[str, Any]) -> None:
    """Run `source` as a program that reads `stdin`; what it prints is in the reply. Leaving with 0 is no error."""
    vars(builtins).update(SITE)
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
