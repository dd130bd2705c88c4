"""Verification: whether a response answers its item right. The one place where verifiers are called.

There are three outcomes. RIGHT and WRONG are judgements about the response: one that cannot be parsed is WRONG. FAILED
says that there is no judgement, because the item is broken, its verifier is unknown, crashed or ran out of time;
failures are counted and shown, and never scored as wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from components.contract.operators import Bound, OperatorSpec
from components.tasks.item import Item

SETTINGS = "settings"
MAX_DETAIL_CHARS = 300


class Outcome(StrEnum):
    """What a verification came to."""

    RIGHT = "right"
    WRONG = "wrong"
    FAILED = "failed"


@dataclass(frozen=True)
class Verdict:
    """An outcome with the reason for it: why a response was not right, or what broke."""

    outcome: Outcome
    detail: str = ""

    @property
    def right(self) -> bool:
        """Return whether the response was judged right."""
        return self.outcome is Outcome.RIGHT

    @property
    def failed(self) -> bool:
        """Return whether there was no judgement at all."""
        return self.outcome is Outcome.FAILED


RIGHT = Verdict(Outcome.RIGHT)


def wrong(detail: str) -> Verdict:
    """Return the verdict WRONG with its reason."""
    return Verdict(Outcome.WRONG, detail)


class BrokenItem(Exception):
    """Raised by a verifier when the item itself cannot be checked against: missing data, a senseless reference."""


class VerifierStopped(Exception):
    """Raised when a verifier's process ran out of time or memory, or crashed."""


def verify(item: Item, response: str) -> Verdict:
    """Judge `response` by the item's verifier, an operator (item, response, *, config) -> Verdict.

    Never raises: whatever goes wrong inside the verifier is the verdict FAILED with the reason as its detail.
    """
    try:
        settings = item.data.get(SETTINGS)
        return _bound(item.verifier, json.dumps(settings, sort_keys=True) if settings else "{}")(item, response)
    except BrokenItem as error:
        return _failed(f"broken item: {error}")
    except VerifierStopped as error:
        return _failed(f"verifier {item.verifier!r}: {error}")
    except Exception as error:  # third-party scorers raise anything: this boundary turns it into an outcome
        return _failed(f"verifier {item.verifier!r}: {type(error).__name__}: {error}")


def verify_all(pairs: Iterable[tuple[Item, str]]) -> list[Verdict]:
    """Return `verify` of many (item, response) pairs, in order."""
    return [verify(item, response) for item, response in pairs]


def count_outcomes(verdicts: Iterable[Verdict]) -> dict[Outcome, int]:
    """Return how many verdicts have each outcome; all three are always there."""
    counts = dict.fromkeys(Outcome, 0)
    for verdict in verdicts:
        counts[verdict.outcome] += 1
    return counts


@cache
def _bound(name: str, settings: str) -> Bound:
    return OperatorSpec.model_validate({"name": name, **json.loads(settings)}).resolve("verifier")


def _failed(detail: str) -> Verdict:
    return Verdict(Outcome.FAILED, detail[:MAX_DETAIL_CHARS])
