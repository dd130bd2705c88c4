"""Gaps of a text filled in: the share that is right."""

from __future__ import annotations

import re

from components.contract.params import Params
from components.tasks.answers import extract_answer
from components.tasks.item import Item
from components.tasks.numbers import parse_number
from components.tasks.verifiers.exact import ExactConfig, normalise
from components.tasks.verify import RIGHT, BrokenItem, Verdict, wrong

TEXT = ExactConfig(punctuation=False)


class FillsConfig(Params):
    """How fills are told apart."""

    separator: str = ""
    """What stands between two fills; by default white space, commas or semicolons."""


def fills(item: Item, response: str, *, config: FillsConfig) -> Verdict:
    """Judge each fill by its number, or else its normalised text; RIGHT if all are, and the share as the score.

    As many fills as gaps are needed: with another number no fill belongs to a gap, and the score is 0.
    Source: MR-RLVR, the masked task (mean over masks; the matching rule is reconstructed).
    """
    expected = item.data.get("fills")
    if not (isinstance(expected, list) and expected and all(isinstance(fill, str) for fill in expected)):
        raise BrokenItem(f"data.fills is no list of texts: {expected!r:.80}")
    text = extract_answer(response)
    given = text.split(config.separator) if config.separator else re.findall(r"[^\s,;]+", text)
    if len(given) != len(expected):
        return wrong(f"{len(given)} fills for {len(expected)} gaps", graded=0.0)
    matches = [_same(one, other) for one, other in zip(given, expected, strict=True)]
    if all(matches):
        return RIGHT
    return wrong(f"{sum(matches)} of {len(matches)} fills are right", graded=sum(matches) / len(matches))


def _same(given: str, expected: str) -> bool:
    number = parse_number(expected)
    if number is not None:
        return parse_number(given) == number
    return normalise(given, TEXT) == normalise(expected, TEXT)
