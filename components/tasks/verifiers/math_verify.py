"""Mathematics: equality of numbers, expressions, sets, intervals and matrices, as math-verify decides it.

Runs in the worker: what a model wrote may keep sympy busy for ever (9^{9^{9}}), and math-verify's own deadline is a
signal that sympy may swallow.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import Field

from components.contract.component import Params
from components.tasks.answers import extract_answer
from components.tasks.isolation import inside_worker, verify_isolated
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

MAX_CHARS = 500
VERSIONED_PACKAGES = ("math-verify", "latex2sympy2-extended", "sympy")
"""What is equal is theirs to say: see components.contract.operators."""


class MathVerifyConfig(Params):
    """How exactly decimals are compared, and how long equality may be sought."""

    decimals: int = Field(default=6, ge=0)
    """Decimal places to which numbers must agree where one of them is a decimal fraction."""
    timeout_seconds: float = Field(default=5.0, gt=0)
    """Deadline of one comparison; running over it is FAILED, for nothing is known then."""


def math_verify(item: Item, response: str, *, config: MathVerifyConfig) -> Verdict:
    r"""Judge by mathematical equality: `2x+2` equals `2(x+1)`, `\frac{1}{2}` equals `0.5`, `\{1,2\}` equals `2, 1`.

    Reads LaTeX and plain numbers. An unreadable response is WRONG; an empty reference is a broken item. Source:
    Kydlicek, math-verify (github.com/huggingface/Math-Verify).
    """
    text = extract_answer(response)
    if text and text == item.answer.strip():
        return RIGHT
    if len(text) > MAX_CHARS:
        return wrong(f"longer than {MAX_CHARS} characters")
    if not inside_worker():
        return verify_isolated(item, response, seconds=config.timeout_seconds)
    from math_verify import verify

    expected = _parsed(item.answer)
    if not expected:
        raise BrokenItem(f"the reference {item.answer[:80]!r} holds nothing to compare with")
    if verify(expected, _parsed(text), float_rounding=config.decimals, timeout_seconds=None):
        return RIGHT
    return wrong(f"answered {text[:80]!r}")


@cache
def _parsed(text: str) -> list[Any]:
    """Return what math-verify reads in a final answer: expressions, and the text that they come from."""
    from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse

    # What stands in a box is read whole; loose text would be searched for the likeliest expression in it.
    ways = [LatexExtractionConfig(boxed_match_priority=0), ExprExtractionConfig()]
    return parse(f"\\boxed{{{text}}}", ways, parsing_timeout=None)
