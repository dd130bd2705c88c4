"""Verdicts on the responses of one step."""

from __future__ import annotations

import math

from components.modeling.ranks import current_ranks
from components.rl.batch.batch import FAILED, RIGHT, UNSCORED, WRONG, Batch
from components.tasks.verify import Outcome, verify_all

TIMEOUTS = "num_timeouts"
CODES = {Outcome.WRONG: WRONG, Outcome.RIGHT: RIGHT, Outcome.FAILED: FAILED}
UNJUDGED = (UNSCORED, math.nan, "", False, False)
"""Of a response to an unlabelled item: no outcome, and no grade."""


class Judge:
    """Verifies each text once: late in a run most responses of a group are identical."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[int, float, str, bool, bool]] = {}
        """Outcome, grade, reason, whether a user's verifier raised, and whether time ran out, by item and text."""
        self._failures: dict[tuple[str, str], str] = {}
        """Why a response has no reward, by item and text."""

    def verdicts(self, batch: Batch) -> list[tuple[int, float]]:
        """Return outcome and grade of every row: those of the last turn of its trajectory.

        Of an unlabelled item: UNSCORED and NaN.
        """
        items, rows = [batch.prompts[group].item for group in batch.group.tolist()], batch.last_rows.tolist()
        texts = [batch.texts[rows[trace]] for trace in batch.trace.tolist()]
        pairs = zip(items, texts, strict=True)
        asked = {(item.id, text): item for item, text in pairs if not item.is_unlabelled}
        new = [key for key in asked if key not in self._known]
        # A verifier may time out on one rank and not on another, so each text is verified by one rank only.
        ranks = current_ranks().all
        verdicts = verify_all((asked[key], key[1]) for key in ranks.share(new))
        found = [(CODES[one.outcome], one.score, one.detail, one.raised, one.timed_out) for one in verdicts]
        self._known.update(zip(new, ranks.together(ranks.gather(found)), strict=True))
        return [self._known.get((item.id, text), UNJUDGED)[:2] for item, text in zip(items, texts, strict=True)]

    def fail(self, item_id: str, text: str, why: str) -> None:
        """Note why a response that was verified has no reward all the same."""
        self._failures[item_id, text] = why

    def reason(self, item_id: str, text: str) -> str:
        """Return why a text was not right; empty if it was, or was not verified here."""
        return self._failures.get((item_id, text)) or self._known.get((item_id, text), UNJUDGED)[2]

    @property
    def num_judged(self) -> int:
        """Return how many distinct texts were judged."""
        return len(self._known)

    @property
    def num_raised(self) -> int:
        """Return how many of them count as wrong because a user's verifier raised."""
        return sum(known[3] for known in self._known.values())

    @property
    def num_timeouts(self) -> int:
        """Return on how many of them a verifier ran out of time."""
        return sum(known[4] for known in self._known.values())

    @property
    def first_raised(self) -> str:
        """Return the first such verdict in words; empty if there is none."""
        return next((known[2] for known in self._known.values() if known[3]), "")
