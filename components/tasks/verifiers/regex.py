"""Regular expressions: the item's author describes the form of a right answer."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from components.contract.params import Params
from components.runtime.sandbox import Limits, Reply, Status
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.sandboxed import Request, blame
from components.tasks.scoring.regex import match
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

MAX_CHARS = 10_000


class RegexConfig(Params):
    """How the pattern is applied."""

    ignore_case: bool = False
    """Whether upper and lower case are the same."""
    timeout_seconds: float = Field(default=2.0, gt=0)
    """Deadline of one match: patterns can take exponential time, so they run in the sandbox."""


def regex(item: Item, response: str, *, config: RegexConfig) -> Verdict | Request:
    """Judge by whether the whole answer matches `data["pattern"]`; a pattern that does not compile breaks the item.

    An answer on which the pattern takes too long is WRONG, unless the reference answer takes as long.
    """
    pattern = item.data.get("pattern")
    if not isinstance(pattern, str):
        raise BrokenItem("data.pattern is missing")
    answer = extract_answer(response)
    if len(answer) > MAX_CHARS:
        return wrong(f"longer than {MAX_CHARS} characters")

    def conclude(reply: Reply) -> Verdict | Request:
        if reply.status is not Status.VALUE:
            return blame(reply, _request(pattern, item.answer, config, conclude))
        if "broken" in reply.value:
            raise BrokenItem(reply.value["broken"])
        return RIGHT if reply.value["matches"] is True else wrong(f"no match: {answer[:80]!r}")

    return _request(pattern, answer, config, conclude)


def _request(pattern: str, text: str, config: RegexConfig, conclude: Callable[[Reply], Verdict | Request]) -> Request:
    argument = {"pattern": pattern, "text": text, "ignore_case": config.ignore_case}
    return Request(match, argument, conclude, Limits(seconds=config.timeout_seconds), shared=True)
