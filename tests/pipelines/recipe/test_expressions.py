"""Expressions of when and gate."""

from __future__ import annotations

import ast
import math
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.contract.errors import InputError
from components.contract.expressions import MAX_LENGTH, Expression, ExpressionError, literal

VALUES = {
    "evaluate-final.pass@1": 0.75,
    "rl[method=dapo].kl": 0.02,
    "x": 3,
    "flag": True,
    "name": "dapo",
    "nan": math.nan,
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("evaluate-final.pass@1 >= 0.75", True),
        ("rl[method=dapo].kl < 0.01 or x == 3", True),
        ("not flag", False),
        ("0 < x <= 3 < 4", True),
        ("0 < x <= 2 < 1 / 0", False),  # a chain stops where it fails
        ("flag or 1 / 0 > 1", True),
        ("1 + 2 * x - 4 / 2", 5.0),
        ("-x + 10", 7),
        ("x - 1", 2),
        ("(x + 1) * 2 == 8 and name == 'dapo'", True),
        ('name != "grpo"', True),
        ("2e-1 < .5", True),
        ("true and not false", True),
        ("nan > 0", False),
    ],
)
def test_values(text: str, value: object) -> None:
    assert Expression(text).evaluate(VALUES.__getitem__) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a complete expression"),
        ("x >", "not a complete expression"),
        ("x y", "not a complete expression"),
        ("()", "not a complete expression"),
        ("x = 1", "unexpected '=' at character 3 of 'x = 1'; write '=='"),
        ("x & y", "write 'and'"),
        ("f(x)", "functions cannot be called"),
        ("x ** 2", r"only \+ - \* / calculate"),
        ("x // 2", r"only \+ - \* / calculate"),
        ("__import__('os').system('id')", "unexpected '.'"),
        ("[x for x in y]", "unexpected '\\['"),
        ("x if y else z", "not a complete expression"),
        ("lambda: 1", "unexpected ':'"),
        ("'open", 'unexpected "\'"'),
        ("(" * 40 + "x" + ")" * 40, "nested more than 30 deep"),
        ("x + " * 400 + "x", "too long"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        Expression(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x / 0 > 1", "divides by zero"),
        ("name > 1", "compares text with a number"),
        ("name + 1 > 1", "calculates with 'dapo'"),
        ("x and flag", "3 stands where true or false is expected"),
        ("x", "gives 3, and a condition is true or false"),
        ("1e308 * 1e308 * x > 1", None),
    ],
)
def test_values_that_do_not_fit(text: str, message: str | None) -> None:
    if message is None:
        assert Expression(text).holds(VALUES.__getitem__)  # infinity compares like a number
        return
    with pytest.raises(ExpressionError, match=message):
        Expression(text).holds(VALUES.__getitem__)


def test_names_in_order_and_replaced() -> None:
    expression = Expression("rl-2.kl < params.limit and 'rl-2.kl' != params.name and rl-2.kl > 0")
    assert expression.names == ("rl-2.kl", "params.limit", "params.name")
    replaced = expression.replace({"params.limit": literal(-0.5), "params.name": literal('a "b"')})
    assert replaced == "rl-2.kl < (-0.5) and 'rl-2.kl' != 'a \"b\"' and rl-2.kl > 0"


def test_what_cannot_be_written_is_refused() -> None:
    with pytest.raises(ExpressionError, match="cannot be written"):
        literal("both ' and \"")
    with pytest.raises(ExpressionError, match="cannot be written"):
        literal([1])  # type: ignore[arg-type]


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_refused(text: str) -> None:
    with suppress(InputError):
        Expression(text).evaluate(lambda name: 0.5)


NUMBERS = st.integers(0, 9).map(str) | st.sampled_from(["x", "0.5"])
ARITHMETIC = st.recursive(
    NUMBERS,
    lambda inner: (
        st.builds(lambda a, op, b: f"({a} {op} {b})", inner, st.sampled_from("+-*"), inner)
        | inner.map(lambda a: f"-{a}")
    ),
    max_leaves=8,
)


@given(ARITHMETIC, st.sampled_from(["<", "<=", "==", "!=", ">", ">="]), ARITHMETIC)
def test_agrees_with_python(left: str, compare: str, right: str) -> None:
    text = f"{left} {compare} {right}"
    if len(text) <= MAX_LENGTH:
        reference = eval(compile(ast.parse(text, mode="eval"), "reference", "eval"), {"x": 3})
        assert Expression(text).holds({"x": 3}.__getitem__) is reference
