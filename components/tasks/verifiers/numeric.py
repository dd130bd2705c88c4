"""Numbers: exact rational comparison, so 0.1 + 0.2 is 3/10 and no tolerance is needed unless it is asked for."""

from __future__ import annotations

from pydantic import Field

from components.tasks.answers import AnswerConfig, extract_answer
from components.tasks.item import Item
from components.tasks.numbers import agree, read_number
from components.tasks.numbers import parse_number as parse_number  # demonstrators of records import it from here
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong


class NumericConfig(AnswerConfig):
    """How near is right. A response is right when it is within either tolerance."""

    absolute_tolerance: float = Field(default=0.0, ge=0)
    """Largest difference to the reference."""
    relative_tolerance: float = Field(default=0.0, ge=0)
    """Largest difference as a share of the reference's size."""


def numeric(item: Item, response: str, *, config: NumericConfig) -> Verdict:
    r"""Judge by the value of a number: integers, decimals, 1,000s, 1e3, 3/4, 3\frac{1}{2}, 50 %, currency, units.

    Text that is not a single number is WRONG, and so is another unit or name than the reference's where both have one.
    `50%` is right for 0.5, and for 50 too, as 50 is for `50%`. A reference that is no number is a broken item. Every
    doubt that components/tasks/numbers.py names falls to WRONG.
    """
    expected = read_number(item.answer)
    if expected is None:
        raise BrokenItem(f"the reference {item.answer!r} is no number")
    text = extract_answer(response, config.unmarked)
    given = read_number(text)
    if given is None:
        return wrong(f"not a number: {text[:80]!r}")
    return (
        RIGHT
        if agree(expected, given, config.absolute_tolerance, config.relative_tolerance)
        else wrong(f"answered {text[:80]}")
    )
