"""Verifiers in users' files: `def check(response, answer, **columns) -> bool | float`.

It runs in the stage's own process: it is the user's code, as an import is. What the response holds is data to it; a
verifier that would run a response as code asks the sandbox (components/tasks/verifiers/README.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from components.contract.errors import PosttrainError
from components.contract.messages import transcript
from components.contract.operator_files.loading import place_of
from components.contract.operator_files.operator import FileOperator
from components.contract.params import Params
from components.tasks.answer_forms import FORMS
from components.tasks.item import Item
from components.tasks.verdict import MAX_DETAIL_CHARS, RIGHT, Outcome, Verdict, wrong

SETTINGS = "settings"


def adapt(operator: FileOperator) -> Callable[..., Verdict]:
    """Return a verifier function of a user's file as a verifier operator."""

    def verifier(item: Item, response: str, *, config: Params) -> Verdict:
        """Judge a response. One on which the function raises is wrong if the function can judge the item's answer."""
        try:
            returned = operator.call_by_name(_taken(operator, item, response))
        except PosttrainError:
            raise
        except Exception as error:
            return _broken(operator, item, error)
        return as_verdict(operator, returned)

    return verifier


def columns(item: Item, response: str) -> dict[str, Any]:
    """Return what a verifier function may take by name: the response, the prompt, and the row's columns."""
    own: Mapping[str, Any] = {name: value for name, value in item.data.items() if name != SETTINGS}
    prompt = transcript(item.messages) if item.messages else item.prompt
    return {**own, "id": item.id, "domain": item.domain, "prompt": prompt, "answer": item.answer, "response": response}


def _taken(operator: FileOperator, item: Item, response: str) -> dict[str, Any]:
    """Return the columns, with verl's names for a function that takes its `solution_str`.

    Source: verl's `compute_score(data_source, solution_str, ground_truth, extra_info=None)`; its data_source is the
    row's column of that name, else the domain, and extra_info the column, else all further columns.
    """
    known = columns(item, response)
    if "solution_str" not in operator.function.by_name:
        return known
    further = {name: value for name, value in item.data.items() if name != SETTINGS}
    defaults = {"data_source": item.domain, "ground_truth": item.answer, "extra_info": further}
    return {**defaults, **known, "solution_str": response}


def as_verdict(operator: FileOperator, returned: Any) -> Verdict:
    """Return the verdict that a value means: true or 1 is right, false or 0 wrong, between them partial credit.

    Raises OperatorFailed for anything but a boolean, a number from 0 to 1, a dict with one at "score", or a Verdict.
    """
    if isinstance(returned, Verdict):
        return returned
    if isinstance(returned, Mapping):
        if "score" not in returned:
            raise operator.failed('returned a dict without "score"')
        returned = returned["score"]
    value = returned.tolist() if hasattr(returned, "tolist") else returned  # a number of numpy or torch
    if not isinstance(value, bool | int | float):
        raise operator.failed(f"returned {value!r:.60}, expected True, False or a number from 0 to 1")
    if not (math.isfinite(value) and 0 <= value <= 1):
        raise operator.failed(f"returned {value}, expected True, False or a number from 0 to 1")
    if value == 1:
        return RIGHT
    return wrong("", graded=float(value)) if value else wrong("")


def _broken(operator: FileOperator, item: Item, error: Exception) -> Verdict:
    """Return WRONG if the item's own answer can be judged in any form; else raise the error: the function is at fault.

    A response must not drop out of the count by breaking its judge. The verdict says that it was so: stages count such
    verdicts and raise an alarm on many.
    """
    for form in FORMS:
        with suppress(Exception):
            as_verdict(operator, operator.call_by_name(_taken(operator, item, form.format(item.answer))))
            return Verdict(Outcome.WRONG, _why(operator, error), raised=True)
    raise operator.raised(error, "on a response, and on the item's own answer too") from error


def _why(operator: FileOperator, error: Exception) -> str:
    """Return the operator, what it raised and in which line of the user's file, cut to the length of a detail."""
    place = place_of(error)
    text = f"{operator.shown} raised {type(error).__name__} on it{f' at {place}' if place else ''}: {error}"
    return " ".join(text.split())[:MAX_DETAIL_CHARS]
