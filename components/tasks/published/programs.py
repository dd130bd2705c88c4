"""Programming problems with tests: APPS and TACO, whose rows have one shape."""

from __future__ import annotations

import json
from typing import Any

from components.contract.errors import InputError
from components.tasks.published.reading import Reading, Row, optional_text, parsed, text
from components.tasks.source import SourceRow

IMPORTS = """from typing import *
from collections import *
from functools import *
from itertools import *
from heapq import *
from bisect import *
import math, re, string, sys
"""
"""What judges of such problems put before a solution that was written for them."""
METHOD = """
def {name}(*args, **kwargs):
    return Solution().{name}(*args, **kwargs)
"""
"""Calls the method of a class Solution; a program that defines the function itself replaces it."""
READS_INPUT = "Write a Python program that reads from standard input and prints to standard output."
IS_CALLED = "Write the Python function `{name}`."


def coding(where: str, row: Row, reading: Reading) -> SourceRow:
    """Read `question`, `starter_code`, `input_output` and the first of `solutions`, all but the first as JSON texts.

    The tests are the first `max_tests` of them. A list with one element as the output of a call stands for the
    element, as the sets write it.
    """
    solutions, cases = parsed(row, "solutions"), parsed(row, "input_output")
    if not isinstance(solutions, list) or not solutions or not isinstance(solutions[0], str):
        raise InputError("no solutions")
    if not isinstance(cases, dict) or not isinstance(cases.get("inputs"), list):
        raise InputError("input_output has no inputs")
    pairs = list(zip(cases["inputs"], cases.get("outputs") or (), strict=False))[: reading.max_tests]
    if not pairs:
        raise InputError("no tests")
    name = cases.get("fn_name")
    data: dict[str, Any] = {"language": "python", "prefix": IMPORTS}
    if name is None:
        data["tests"] = [{"stdin": _lines(given), "stdout": _lines(wanted)} for given, wanted in pairs]
    else:
        if not isinstance(name, str) or not name.isidentifier():
            raise InputError("fn_name is no name of a function")
        data |= {"entry_point": name, "prefix": IMPORTS + METHOD.format(name=name)}
        data["tests"] = [{"args": _arguments(given), "expected": _value(wanted)} for given, wanted in pairs]
    extras = {key: value for key in ("difficulty", "source") if (value := optional_text(row, key))}
    return SourceRow(
        where,
        prompt=_prompt(row, name),
        answer=solutions[0],
        response=f"```python\n{solutions[0].strip()}\n```",
        verifier=reading.verifier,
        data=data,
        extras=extras,
    )


def _prompt(row: Row, name: str | None) -> str:
    starter = optional_text(row, "starter_code").strip()
    parts = [text(row, "question").strip(), READS_INPUT if name is None else IS_CALLED.format(name=name)]
    return "\n\n".join([*parts, f"```python\n{starter}\n```"] if starter else parts)


def _lines(value: Any) -> str:
    """Return input or output as text; some rows hold a list of lines."""
    if isinstance(value, list):
        return "\n".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value)


def _arguments(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _value(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value
