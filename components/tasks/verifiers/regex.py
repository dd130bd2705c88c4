"""Regular expressions: the item's author says what a right answer looks like."""

from __future__ import annotations

import re

from pydantic import Field

from components.contract.component import Params
from components.tasks.answers import extract_answer
from components.tasks.isolation import inside_worker, verify_isolated
from components.tasks.item import Item
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

MAX_CHARS = 10_000


class RegexConfig(Params):
    """How the pattern is applied."""

    ignore_case: bool = False
    """Whether upper and lower case are the same."""
    timeout_seconds: float = Field(default=2.0, gt=0)
    """Deadline of one match: patterns can take exponential time, so they run in a process of their own."""


def regex(item: Item, response: str, *, config: RegexConfig) -> Verdict:
    """Judge by whether the whole answer matches `data["pattern"]`; a pattern that does not compile breaks the item."""
    pattern = item.data.get("pattern")
    if not isinstance(pattern, str):
        raise BrokenItem("data.pattern is missing")
    if not inside_worker():
        return verify_isolated(item, response, seconds=config.timeout_seconds)
    try:
        compiled = re.compile(pattern, re.IGNORECASE if config.ignore_case else 0)
    except re.error as error:
        raise BrokenItem(f"data.pattern does not compile: {error}") from error
    answer = extract_answer(response)
    if len(answer) > MAX_CHARS:
        return wrong(f"longer than {MAX_CHARS} characters")
    return RIGHT if compiled.fullmatch(answer) else wrong(f"no match: {answer[:80]!r}")
