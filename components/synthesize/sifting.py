"""Texts of writers, judged by their items' verifiers, and which of the right ones are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from components.synthesize.writers import Text
from components.tasks.item import Item
from components.tasks.verify import Verdict, verify_all

REFUSED, UNFINISHED = "refused", "unfinished"
WRONG, FAILED = "wrong", "verification_failed"
REPEATED, OVER_CAP = "repeated", "over_cap"


@dataclass(frozen=True)
class Judged:
    """A text that was written to an item, and what became of it."""

    text: str = ""
    writer: str = ""
    dropped: str | None = None
    """Why it cannot be kept as a right response; None if it can."""
    verdict: Verdict | None = None
    """None for a text that was refused or not finished."""

    @property
    def kept(self) -> bool:
        """Return whether it is a right response."""
        return self.dropped is None

    @property
    def score(self) -> float:
        """Return the verifier's score, from 0 to 1, of a text with a verdict."""
        assert self.verdict is not None
        return self.verdict.score


def judged(items: Sequence[Item], texts: Sequence[Sequence[Text | None]]) -> list[list[Judged]]:
    """Return every text with its verdict by its item's verifier; each distinct text of an item is verified once."""
    pairs = {
        (at, one.text): item
        for at, (item, found) in enumerate(zip(items, texts, strict=True))
        for one in found
        if one is not None and one.finished
    }
    verdicts = dict(zip(pairs, verify_all((item, text) for (_, text), item in pairs.items()), strict=True))
    return [
        [_judged(one, verdicts.get((at, one.text)) if one else None) for one in found] for at, found in enumerate(texts)
    ]


def _judged(one: Text | None, verdict: Verdict | None) -> Judged:
    if one is None:
        return Judged(dropped=REFUSED)
    if not one.finished or verdict is None:
        return Judged(one.text, one.writer, UNFINISHED)
    reason = None if verdict.right else FAILED if verdict.failed else WRONG
    return Judged(one.text, one.writer, reason, verdict)


def most(found: Sequence[Judged], cap: int | None, *, shortest: bool = False) -> tuple[list[Judged], list[str]]:
    """Return at most `cap` distinct texts, and why each of the others is dropped; ties keep the order drawn."""
    others = list({one.text: one for one in reversed(found)}.values())[::-1]
    if shortest:
        others.sort(key=lambda one: len(one.text))
    chosen = others[:cap]
    reasons = [REPEATED] * (len(found) - len(others)) + [OVER_CAP] * (len(others) - len(chosen))
    return chosen, reasons
