"""Strict grammars: what they accept is harmless by Python's own reading of it, and they end on every text."""

from __future__ import annotations

import ast
import random
import re
from itertools import chain

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from components.tasks.answers import extract_answer
from components.tasks.grammars.expression import MAX_DEPTH
from components.tasks.grammars.literal import is_literal
from components.tasks.grammars.reasoning_gym import (
    ANSWERS,
    ARITHMETIC,
    BITWISE,
    CALCULUS,
    ELEMENTARY,
    POLYNOMIAL,
    ROWS,
    unearned,
)
from components.tasks.scoring.reasoning_gym import load_dataset
from components.tasks.verify import Outcome, verify_all
from tests.tasks.test_reasoning_gym import draw, through_json

NUMBERS_AND_NAMES = [
    "1",
    "23",
    "0x1f",
    "4.5",
    "1e5",
    "x",
    "C",
    "sin(",
    "log(",
    "print",
    "open",
    "__import__",
    "os",
    "-1",
]
WORDS = [
    "eval",
    "lambda",
    "if",
    "else",
    "for",
    "in",
    "not",
    "or",
    "and",
    "is",
    "None",
    "import",
    "__class__",
    "_",
    "...",
]
MARKS = [*"()[]{},+-*/^|~%:.;'\"#\\\n@!= ", "**", "<<", ">>", "//", ":=", "==", "f'{", "'ab'", '"c"']
PIECES = [*NUMBERS_AND_NAMES, *WORDS, *MARKS]
TEXTS = st.one_of(st.text(max_size=60), st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
HARMLESS_NODES = (ast.Expression, ast.BinOp, ast.UnaryOp, ast.Constant, ast.Name, ast.Call, ast.operator, ast.unaryop)


def parsed(text: str) -> ast.AST | None:
    """Return Python's reading of a text as eval would see it; None for what it cannot read and so never runs."""
    try:
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


@given(TEXTS)
@example("__import__('os').system('x')")
@example("sin(x).__class__")
@example("1 if open('x') else 2")
@example("[x for x in y]")
@example("x\n+1")
@example("None")
@example("x+True")
def test_an_accepted_expression_computes_and_does_nothing_else(text: str) -> None:
    for grammar, functions in ((ARITHMETIC, set()), (BITWISE, set()), (POLYNOMIAL, set()), (CALCULUS, ELEMENTARY)):
        if not grammar.accepts(text) or (tree := parsed(text)) is None:
            continue
        for node in ast.walk(tree):
            assert isinstance(node, (*HARMLESS_NODES, ast.expr_context)), ast.dump(node)
            if isinstance(node, ast.Call):
                assert isinstance(node.func, ast.Name) and node.func.id in functions and not node.keywords
            if isinstance(node, ast.Constant):
                assert type(node.value) in (int, float)


@given(TEXTS)
@example("['a', 'b'].pop()")
@example("[1, 2][0]")
@example("'a' 'b'")
@example("f'{x}'")
def test_an_accepted_list_is_a_literal(text: str) -> None:
    if is_literal(text) and (tree := parsed(text)) is not None:
        kinds = (ast.Expression, ast.List, ast.Tuple, ast.Constant, ast.UnaryOp, ast.USub, ast.Load)
        assert all(isinstance(node, kinds) for node in ast.walk(tree))


@pytest.mark.parametrize("text", ["(" * 10**6, "[" * 10**6, "-" * 10**6, "1+" * 10**6, "9" * 10**6, "'" * 10**6])
def test_what_is_too_long_is_refused(text: str) -> None:
    assert not any(check(text) for check in (ARITHMETIC.accepts, CALCULUS.accepts, is_literal))


@pytest.mark.parametrize("depth", [MAX_DEPTH, MAX_DEPTH + 1])
def test_brackets_and_signs_go_only_so_deep(depth: int) -> None:
    assert ARITHMETIC.accepts("(" * depth + "1" + ")" * depth) is (depth <= MAX_DEPTH)
    assert ARITHMETIC.accepts("-" * depth + "1") is (depth <= MAX_DEPTH)
    assert is_literal("[" * 4 + "]" * 4) and not is_literal("[" * 5 + "]" * 5)


def near_misses(task: str, answer: str, rng: random.Random) -> list[str]:
    """Return harmless answers beside a reference: written otherwise, completed, and wrong."""
    number = str(rng.randint(2, 9))
    texts = [
        answer,
        f"({answer})",
        f" {answer} ",
        f"{answer} + 1",
        f"{answer} + C",
        f"{number}*({answer})",
        number,
        "",
        "x",
    ]
    texts += [answer.replace("+ C", "+ 7"), answer.replace(" + C", ""), answer.replace("+ C", "+ K"), answer[:-1]]
    texts += [re.sub(r"(?<!\*)\*(?!\*)|/", " \\g<0> ", answer), answer.replace("+", "-"), answer.replace(" ", "")]
    parts = answer.split(" + ")
    texts += [" + ".join(reversed(parts)), " ".join(answer), ", ".join(answer), f"{answer}\n"]
    if ANSWERS[task] is is_literal:
        rows = [line.split() for line in answer.split("\n")]
        numbers = [[int(cell) if cell.isdigit() else cell for cell in row] for row in rows]
        texts += [str(rows), str(numbers), str(list(answer)), repr(answer)]
        texts += [str(list(chain(*rows))), str(list(chain(*numbers))), "x"]
    return texts


@pytest.mark.parametrize("task", sorted(ANSWERS))
def test_honest_answers_get_the_verdict_of_the_librarys_own_scorer(task: str) -> None:
    pairs, expected = [], []
    for row in draw(task, 3, seed=11):
        item = through_json(row, task)
        if "Integral" in item.answer:
            continue  # sympy could not solve it: the reference is no solution either
        entry = {"question": item.prompt, "answer": item.answer, "metadata": item.data["metadata"]}
        others = [other.answer for other in draw(task, 2, seed=12)]
        for text in dict.fromkeys([*near_misses(task, item.answer, random.Random(item.id)), *others]):
            given = extract_answer(f"<answer>{text}")
            pairs.append((item, f"<answer>{text}"))
            right = load_dataset(task, "{}").score_answer(given, entry) >= 1
            earned = right and not unearned(task, given, item.answer, item.data["metadata"])
            expected.append(Outcome.RIGHT if earned else Outcome.WRONG)
    verdicts = verify_all(pairs)
    differing = [
        (pair[1], outcome, verdict)
        for pair, outcome, verdict in zip(pairs, expected, verdicts, strict=True)
        if verdict.outcome is not outcome
    ]
    assert differing == []
    assert {Outcome.RIGHT, Outcome.WRONG} == set(expected)


def test_what_rows_hold_is_of_the_form_that_is_asked_of_it() -> None:
    for task, check in ROWS.items():
        for row in draw(task, 12, seed=5):
            assert check(row.data["metadata"], row.answer), (task, row.answer, row.data["metadata"])
