"""What a run has spent of its budget, on all engines that it has been moved to."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from components.contract.errors import BudgetSpent, PosttrainError
from components.runtime.costs.amounts import Rate
from components.runtime.costs.attempts import attempts_of
from components.runtime.ledger.records import run_key

if TYPE_CHECKING:
    from components.contract.job import Budget, Job
    from components.runtime.store import Store

LOOK_SECONDS = 5.0
MAX_MOVES = 100


def spent(store: Store, run_id: str, currency: str) -> float:
    """Return what all attempts at stages of a run took so far, and those of the runs that it goes on for.

    Attempts in progress count up to their last sign of life, at most half a minute ago.
    """
    total = 0.0
    for run, entry in _runs(store, run_id):
        attempts = attempts_of(store, run)[0]
        for planned in entry.get("stages", ()):
            rate = Rate.of_record(planned.get("rate"))
            total += sum(one.amount(rate).prices.get(currency, 0.0) for one in attempts.get(planned["name"], ()))
    return total


def _runs(store: Store, run_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for _ in range(MAX_MOVES):
        entry = store.recover(run_key(run_id))
        if entry is None:
            return
        yield run_id, entry
        if not entry.get("moved"):
            return
        run_id = entry["moved"]


class Spending:
    """Tells a stage at its steps whether its run has spent its budget."""

    def __init__(self, store: Store, job: Job) -> None:
        self._store, self._job, self._looked, self._over = store, job, float("-inf"), 0.0

    def is_over(self) -> bool:
        """Return whether nothing more may be spent; looks into the store now and then."""
        budget = self._job.budget
        if budget is None:
            return False
        now = time.monotonic()
        if not self._over and now - self._looked >= LOOK_SECONDS:
            self._looked = now
            with suppress(PosttrainError):  # a store that is away: the next look may find it
                self._over = _over(self._store, self._job.run_id, budget)
        return bool(self._over)

    def end(self, at: str) -> None:
        """Raise BudgetSpent if nothing more may be spent; `at` says where the stage stands."""
        if self.is_over() and (budget := self._job.budget):
            raise BudgetSpent(
                f"stage {self._job.stage!r} {at}: the run has spent {self._over:.2f} of its budget of {budget}; "
                "with a higher one (--set budget=...) it goes on from there"
            )


def _over(store: Store, run_id: str, budget: Budget) -> float:
    """Return what was spent if that is no less than the budget, else 0."""
    amount = spent(store, run_id, budget.currency)
    return amount if amount >= budget.amount else 0.0
