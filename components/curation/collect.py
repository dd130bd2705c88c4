"""Draws rows from the sources, checks them and grades their difficulty, counting every drop."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from components.contract.context import StageContext
from components.curation.candidate import Candidate, RowCheck, candidate_of
from components.curation.chain import ChainParams, row_checks
from components.curation.operators.difficulty import Difficulty
from components.tasks.source import BadRow, SourceRow, SourceRows

DRAWS_PER_ROW = 20
SPARE_DRAWS = 10_000
"""An endless source with fewer than one new row in DRAWS_PER_ROW draws counts as exhausted."""
UNLIMITED = 1 << 62
SURPLUS = "surplus"


@dataclass
class SourceTally:
    """Counts of the rows of one source."""

    domain: str | None
    origin: dict[str, Any] = field(default_factory=dict)
    wanted: int | None = None
    drawn: int = 0
    drops: Counter[str] = field(default_factory=Counter)
    kept: int = 0
    selected_out: int = 0
    """Rows that were collected as requested, and that a selector dropped afterwards."""

    @property
    def missing(self) -> int:
        """Return how many requested rows could not be provided."""
        return max(0, self.wanted - self.kept - self.selected_out) if self.wanted is not None else 0


@dataclass
class CollectedRows:
    """Kept rows in the order of their sources, and statistics of all drawn rows."""

    tallies: list[SourceTally] = field(default_factory=list)
    kept: list[Candidate] = field(default_factory=list)
    prompt_chars: Counter[int] = field(default_factory=Counter)
    answer_chars: Counter[int] = field(default_factory=Counter)
    pass_rates: list[float] = field(default_factory=list)
    """Of all measured prompts, kept or not."""
    domains: Counter[str] = field(default_factory=Counter)

    def note_drawn(self, draft: Candidate) -> None:
        """Count a drawn row, for the histograms before curation."""
        self.domains[draft.domain] += 1
        self.prompt_chars[len(draft.content)] += 1
        if draft.item is not None:
            self.answer_chars[len(draft.item.answer)] += 1


@dataclass(frozen=True)
class RowCollector:
    """Fills a collection source by source; checks compare later sources with the rows kept from earlier ones."""

    checks: Sequence[RowCheck]
    difficulty: Difficulty | None
    candidates: float
    """Maximum checked rows per wanted row: above 1 only if difficulty selects among them."""
    kept_share: float
    """Share of all prompts that the split keeps, for the limit on draws."""
    progress: Callable[[int], None]
    """Called with the number of rows kept so far."""
    collection: CollectedRows = field(default_factory=CollectedRows)

    @classmethod
    def of_stage(
        cls,
        params: ChainParams,
        context: StageContext[Any],
        difficulty: Difficulty | None,
        progress: Callable[[int], None] = lambda done: None,
        filters: Sequence[RowCheck] = (),
    ) -> RowCollector:
        """Return a collector with the checks of a stage's parameters, against its input `against`, and `filters`."""
        return cls(
            checks=row_checks(params, (found.path for found in context.inputs("against")), context.seed, filters),
            difficulty=difficulty,
            candidates=params.difficulty.candidates if params.difficulty else 1.0,
            kept_share=params.split[1] - params.split[0],
            progress=progress,
        )

    def take(self, opened: SourceRows, *, limit: int, position: int, domain: str | None, want: int | None) -> None:
        """Draw at most `limit` rows from an opened source, until `want` are kept or it is exhausted."""
        tally = SourceTally(domain=domain, origin=dict(opened.origin), wanted=want)
        self.collection.tallies.append(tally)
        drafts = self._checked(islice(opened.rows, limit), tally, position)
        if self.difficulty:
            most = None if want is None else math.ceil(want * self.candidates)
            drafts = self._graded(self.difficulty.select(islice(drafts, most), want), tally)
        for draft in islice(drafts, want):
            tally.kept += 1
            self.collection.kept.append(draft)
            self.progress(len(self.collection.kept))
        tally.drops[SURPLUS] += sum(1 for _ in drafts) if self.difficulty else 0
        tally.drops += Counter()  # drops reasons with a count of zero

    def limit(self, want: int | None) -> int:
        """Return how many rows to draw at most so that `want` of them are kept."""
        if want is None:
            return UNLIMITED
        return math.ceil(want * self.candidates * DRAWS_PER_ROW / self.kept_share) + SPARE_DRAWS

    def _checked(self, rows: Iterator[SourceRow | BadRow], tally: SourceTally, position: int) -> Iterator[Candidate]:
        for row in rows:
            tally.drawn += 1
            if isinstance(row, BadRow):
                tally.drops[row.reason] += 1
                continue
            draft = candidate_of(row, position, tally.domain)
            self.collection.note_drawn(draft)
            if reason := self._reject(draft):
                tally.drops[reason] += 1
            else:
                yield draft

    def _reject(self, draft: Candidate) -> str | None:
        reason = next((reason for check in self.checks if (reason := check.reject(draft))), None)
        if reason is None:
            for check in self.checks:
                check.keep(draft)
        return reason

    def _graded(self, graded: Iterator[tuple[Candidate, str | None]], tally: SourceTally) -> Iterator[Candidate]:
        for draft, reason in graded:
            if "pass_rate" in draft.extras:
                self.collection.pass_rates.append(draft.extras["pass_rate"])
            if reason:
                tally.drops[reason] += 1
            else:
                yield draft
