"""Mathematics: equality of numbers, expressions, sets, intervals and matrices, as math-verify decides it.

Runs in the sandbox: a model's text may keep sympy busy forever (9^{9^{9}}), and math-verify's own deadline is a
signal that sympy may swallow.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from components.runtime.sandbox import Limits, Reply, Status
from components.tasks.answers import AnswerConfig, extract_answer
from components.tasks.item import Item
from components.tasks.mathematics import differ_in_kind, letter_of, tidy, unclosed_box
from components.tasks.numbers import agree, read_number
from components.tasks.sandboxed import Request, blame
from components.tasks.scoring.math_verify import equal
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

MAX_CHARS = 500
VERSIONED_PACKAGES = ("math-verify", "latex2sympy2-extended", "sympy")
"""They decide what is equal: see components.contract.operators."""
MEMORY_BYTES = 1 << 30
PRELOAD = "components.tasks.scoring.warm_math_verify"
"""Imported inside only: it imports the library and compares a few answers before any deadline starts."""


class MathVerifyConfig(AnswerConfig):
    """How exactly decimals are compared, and how long equality may be sought."""

    decimals: int = Field(default=6, ge=0)
    """Decimal places to which numbers must agree where one of them is a decimal fraction."""
    timeout_seconds: float = Field(default=5.0, gt=0)
    """Deadline of one comparison."""


def math_verify(item: Item, response: str, *, config: MathVerifyConfig) -> Verdict | Request:
    r"""Judge by mathematical equality: `2x+2` equals `2(x+1)`, `\frac{1}{2}` equals `0.5`, `\{1,2\}` equals `2, 1`.

    Reads LaTeX, and numbers as `numeric` does. A set is no tuple, a numeral of another base is no decimal one, and n, k
    and m are positive. An unreadable response is WRONG, and so is one that keeps the comparison from ending when the
    reference can be compared with itself; an empty reference is a broken item. Source: Kydlicek, math-verify
    (github.com/huggingface/Math-Verify).
    """
    text = extract_answer(response, config.unmarked)
    if text and text == item.answer.strip():
        return RIGHT
    if len(text) > MAX_CHARS:
        return wrong(f"longer than {MAX_CHARS} characters")
    if _plainly_equal(item.answer, text):
        return RIGHT
    if unclosed_box(text) or differ_in_kind(item.answer, text):
        return wrong(f"answered {text[:80]!r}")

    def conclude(reply: Reply) -> Verdict | Request:
        if reply.status is not Status.VALUE:
            return blame(reply, _request(item.answer, item.answer, config, conclude))
        if "broken" in reply.value:
            raise BrokenItem(reply.value["broken"])
        return RIGHT if reply.value["equal"] is True else wrong(f"answered {text[:80]!r}")

    return _request(item.answer, text, config, conclude)


def _plainly_equal(expected: str, given: str) -> bool:
    """Return whether two answers are the same number or letter, which needs no library."""
    numbers = read_number(expected), read_number(given)
    if numbers[0] is not None and numbers[1] is not None:
        return agree(numbers[0], numbers[1])
    letter = letter_of(expected)
    return letter != "" and letter == letter_of(given)


def _request(
    expected: str, given: str, config: MathVerifyConfig, conclude: Callable[[Reply], Verdict | Request]
) -> Request:
    argument = {"expected": tidy(expected), "given": tidy(given), "decimals": config.decimals}
    # math-verify parses LaTeX with a grammar, and passes only digits and operators to Python's parser.
    limits = Limits(seconds=config.timeout_seconds, memory_bytes=MEMORY_BYTES)
    return Request(equal, argument, conclude, limits, preload=(PRELOAD,), shared=True)
