"""reasoning-gym's tasks: which scorers run in the sandbox, and what may reach one that evaluates text.

Two kinds of text are evaluated: what a model answered, and what the item's row says (a reference, an integrand). Both
must be of the form that the task asks for. A test reads the library's source and fails when another task evaluates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from components.tasks.grammars.expression import DECIMAL, HEXADECIMAL, Grammar
from components.tasks.grammars.literal import is_literal
from components.tasks.grammars.reasoning_gym_tasks import TASK_NAMES

POWERS = ("**", "+", "-", "*", "/")
TRIGONOMETRIC = ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")
INVERSE = ("asin", "acos", "atan", "acot", "asinh", "acosh", "atanh")
OTHERS = ("exp", "log", "ln", "sqrt", "cbrt", "Abs", "Rational", "erf", "erfi", "Si", "Ci", "Ei")
ELEMENTARY = frozenset({*TRIGONOMETRIC, *INVERSE, *OTHERS})
ARITHMETIC = Grammar()
POLYNOMIAL = Grammar(number=DECIMAL, operators=POWERS, names=True)
CALCULUS = Grammar(number=DECIMAL, operators=POWERS, names=True, functions=ELEMENTARY)
WITH_INTEGRALS = Grammar(number=DECIMAL, operators=POWERS, names=True, functions=ELEMENTARY | {"Integral"})
"""Of references: sympy could not solve some of the library's own integrals. In an answer it is no solution."""
BITWISE = Grammar(
    number=HEXADECIMAL, operators=("<<", ">>", "//", "+", "-", "*", "/", "&", "|", "^", "%"), signs=("+", "-", "~")
)

ANSWERS: Mapping[str, Callable[[str], bool]] = {
    "binary_matrix": is_literal,
    "countdown": ARITHMETIC.accepts,
    "intermediate_integration": CALCULUS.accepts,
    "n_queens": is_literal,
    "polynomial_multiplication": POLYNOMIAL.accepts,
    "puzzle24": ARITHMETIC.accepts,
    "simple_integration": CALCULUS.accepts,
    "spiral_matrix": is_literal,
    "string_insertion": is_literal,
}
"""Tasks that evaluate an answer -> whether an answer is harmless to evaluate."""
ROWS: Mapping[str, Callable[[Mapping[str, Any], str], bool]] = {
    "bitwise_arithmetic": lambda metadata, _: _is(BITWISE.accepts, metadata, "problem"),
    "intermediate_integration": lambda metadata, answer: _is_integral(metadata, answer),
    "number_sorting": lambda _, answer: is_literal(answer),
    "polynomial_multiplication": lambda _, answer: POLYNOMIAL.accepts(answer),
    "simple_integration": lambda metadata, answer: _is_integral(metadata, answer),
}
"""Tasks that evaluate text of the item -> whether (metadata, reference) is harmless to evaluate."""
FORMS = {
    is_literal: "a list",
    ARITHMETIC.accepts: "an expression of whole numbers, + - * / and brackets",
    POLYNOMIAL.accepts: "a polynomial",
    CALCULUS.accepts: "an expression of elementary functions",
}
SLOW = frozenset({"boxnet", "codeio", "coin_flip", "propositional_logic", "rubiks_cube", "rush_hour"})
"""Scorers that evaluate nothing, but that some answers keep busy for long: 1e999999999 as a fraction."""
OPEN = frozenset({"composite"})
"""Tasks that hand an answer to the scorers of others."""
SANDBOXED = frozenset({*ANSWERS, *ROWS, *SLOW, *OPEN})
JUDGED_HERE = TASK_NAMES - SANDBOXED
"""Tasks whose scorers compare text, read numbers and simulate moves: judged in the calling process. A task that is
in no table, such as one of another library, is judged in the sandbox, each answer in its own run."""


def judged_alone(task: str) -> bool:
    """Return whether each answer needs its own run, because it is unknown what the scorer does with it."""
    return task in OPEN or task not in TASK_NAMES


def is_harmless(task: str, answer: str, reference: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether an answer may be put to the task's scorer: it is compared as it is, or of the task's form."""
    check = ANSWERS.get(task)
    if check is None or check(answer):
        return True
    if check is not is_literal:
        return False
    # These scorers evaluate an answer only if it does not match word for word.
    known = metadata.get("valid_answers") if task == "n_queens" else [reference]
    return isinstance(known, list) and answer in known


def is_harmless_row(task: str, reference: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether what the item itself gives the scorer to evaluate is of the task's form."""
    of_row = task not in ROWS or ROWS[task](metadata, reference)
    return of_row and (task in ROWS or is_harmless(task, reference, reference, metadata))


def form(task: str) -> str:
    """Describe the form that an answer must have in a task that evaluates it."""
    return FORMS[ANSWERS[task]]


def unearned(task: str, answer: str, reference: str, metadata: Mapping[str, Any]) -> str:
    """Return why full score is no proof of a solution, or nothing: four scorers can be had without solving."""
    if task == "game_of_life_halting" and answer.strip().lower() != reference.strip().lower():
        return "the scorer takes any text for the answer"
    if task in ("complex_arithmetic", "number_sorting") and "nan" in answer.lower():
        return "the scorer takes what is no number for any number"
    if task == "puzzle24" and _numbers(answer) != sorted(metadata.get("numbers", _numbers(answer))):
        return "it does not use the numbers that are given"
    return ""


def _numbers(text: str) -> list[int]:
    return sorted(int(number) for number in re.findall(r"\d{1,9}", text))


def _is(check: Callable[[str], bool], metadata: Mapping[str, Any], key: str) -> bool:
    value = metadata.get(key)
    return isinstance(value, str) and check(value)


def _is_integral(metadata: Mapping[str, Any], reference: str) -> bool:
    of_task = _is(WITH_INTEGRALS.accepts, metadata, "integrand") and _is(str.isidentifier, metadata, "variable")
    return of_task and (not reference or WITH_INTEGRALS.accepts(reference))
