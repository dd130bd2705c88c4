"""Many claims in one table: which hold together, and how many false verdicts chance alone would give."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipelines.methods.looks import ALPHA
from pipelines.methods.recorded import Record
from pipelines.methods.verdict import NOTHING_CONCLUDED, Verdict, holds_by_holm

ERROR = 0.025
"""Bound on the probability of a false `seen`, and on that of a false `opposite`, of one primary measure (simulated)."""


@dataclass(frozen=True)
class Together:
    """The primary measures of a table."""

    primaries: int
    """How many there are."""
    judged: int
    """How many could be tested: not halted by a precondition, an inactive operator or unequal budgets."""
    concluded: int
    """How many have a verdict that says something of the claim."""
    holding: frozenset[tuple[str, str]]
    """(method, `mechanism` or `outcome`) of claims that hold when all of the table err together at most `ALPHA`."""

    @property
    def false_verdicts(self) -> float:
        """Return the bound on the expected number of false verdicts, were every claim exactly at its floor."""
        return 2 * ERROR * self.judged

    @property
    def in_words(self) -> str:
        """Return what chance would give and what holds, in two sentences."""
        return (
            f"Of {self.primaries} claims {self.judged} could be judged: were each exactly at its floor, at most "
            f"{self.false_verdicts:.2g} false verdicts are expected ({self.judged} x 2 sides x {ERROR:.1%}). "
            f"Marked + are the {len(self.holding)} that hold together by Holm's correction over the table."
        )


def together(records: Iterable[Record]) -> Together:
    """Return what holds of the primary measures of these records together (Holm 1979).

    Those that could not be tested stay in the family with p = 1: their number was fixed before anything ran.
    """
    found = [(record, part) for record in records for part in record.claims]
    p_values = [_p(record, part) for record, part in found]
    holds = holds_by_holm(p_values, ALPHA)
    names = [(record.slug, part) for record, part in found]
    verdicts = [record.verdicts[part] for record, part in found]
    return Together(
        primaries=len(found),
        judged=sum(verdict not in NOTHING_CONCLUDED or verdict is Verdict.UNDECIDED for verdict in verdicts),
        concluded=sum(verdict not in NOTHING_CONCLUDED for verdict in verdicts),
        holding=frozenset(name for name, held in zip(names, holds, strict=True) if held),
    )


def _p(record: Record, part: str) -> float:
    decision = record.claims[part].decision
    halted = record.verdicts[part] in NOTHING_CONCLUDED
    return 1.0 if decision is None or halted else decision.p
