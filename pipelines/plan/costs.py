"""What a run really cost, beside what a plan had estimated and what the cache saved: stage by stage, and by cell."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.contract.errors import CorruptArtifact
from components.runtime.costs.amounts import Amount, Rate, total
from components.runtime.costs.attempts import Attempt, attempts_of
from components.runtime.costs.words import NOTHING, amount_text
from components.runtime.ledger.records import action_key
from pipelines.plan.history import History, models_of

if TYPE_CHECKING:
    from components.runtime.store import Store


@dataclass(frozen=True)
class StageCost:
    """What one stage cost in one run."""

    stage: str
    labels: Mapping[str, Any] = field(default_factory=dict)
    """Its cell of the matrix, and its rounds."""
    attempts: tuple[Attempt, ...] = ()
    """All of them, those that failed or were killed too."""
    rate: Rate | None = None
    """Of its pool when the run began."""
    estimate: Amount | None = None
    """What a plan of that time says, from the runs before; None without a basis, and of a stage that did not run."""
    saved: Amount | None = None
    """What the work took that a cached stage reuses, or a fork shares; None of others, and where that is not known."""

    @property
    def amount(self) -> Amount:
        """Return what all attempts took; nothing for a cached stage."""
        return total(attempt.amount(self.rate) for attempt in self.attempts)

    @property
    def waited_seconds(self) -> float | None:
        """Return how long its attempts waited for cores or a node; None where no engine told that."""
        known = [attempt.waited_seconds for attempt in self.attempts if attempt.waited_seconds is not None]
        return sum(known) if known else None

    def to_json(self) -> dict[str, Any]:
        """Return the cost for scripts."""
        return {
            **self.amount.to_json(),
            "attempts": [attempt.model_dump(mode="json", exclude={"run_id", "stage"}) for attempt in self.attempts],
            "estimate": self.estimate.to_json() if self.estimate else None,
            "saved": self.saved.to_json() if self.saved else None,
        }


@dataclass(frozen=True)
class RunCost:
    """What the stages of one run cost."""

    stages: Mapping[str, StageCost] = field(default_factory=dict)
    unreadable: tuple[str, ...] = ()
    """Keys of damaged records, whose attempts are not counted."""

    def of(self, names: Collection[str] | None = None) -> RunCost:
        """Return the cost of some stages."""
        return self if names is None else RunCost({name: cost for name, cost in self.stages.items() if name in names})

    @property
    def amount(self) -> Amount:
        """Return what all attempts at all stages took."""
        return total(stage.amount for stage in self.stages.values())

    @property
    def attempts(self) -> int:
        """Return how many attempts there were."""
        return sum(len(stage.attempts) for stage in self.stages.values())

    @property
    def estimate(self) -> Amount | None:
        """Return the estimate for the stages that ran; None if there is none for one of them, or none ran."""
        known = [stage.estimate for stage in self.stages.values() if stage.attempts]
        found = [estimate for estimate in known if estimate is not None]
        return total(found) if found and len(found) == len(known) else None

    @property
    def saved(self) -> Amount:
        """Return what the cache and forks saved, as far as that is known."""
        return total(stage.saved for stage in self.stages.values() if stage.saved is not None)

    def by_cell(self) -> list[tuple[dict[str, Any], Amount]]:
        """Return (labels, what the stages with these labels took) in the plan's order; {} for those without."""
        cells: dict[str, tuple[dict[str, Any], list[Amount]]] = {}
        for stage in self.stages.values():
            labels = dict(stage.labels)
            cells.setdefault(str(sorted(labels.items())), (labels, []))[1].append(stage.amount)
        return [(labels, total(amounts)) for labels, amounts in cells.values()]

    def to_json(self) -> dict[str, Any]:
        """Return the whole run's cost for scripts."""
        return {
            **self.amount.to_json(),
            "attempts": self.attempts,
            "estimate": self.estimate.to_json() if self.estimate else None,
            "saved": self.saved.to_json(),
            "cells": [{"labels": labels} | amount.to_json() for labels, amount in self.by_cell()],
            "unreadable": list(self.unreadable),
        }

    def in_words(self) -> str:
        """Return the run's cost in one line, with the estimate and what the cache saved; empty if nothing is known."""
        saved, parts = self.saved, []
        if self.attempts:
            tries = f"{self.attempts} attempt{'' if self.attempts == 1 else 's'}"
            parts = [f"{amount_text(self.amount)}, in {tries}"]
            parts += [f"the plan's estimate: {amount_text(self.estimate)}"] if self.estimate else []
        elif saved.hours:
            parts = [NOTHING]
        forked = any(stage.saved is not None and stage.attempts for stage in self.stages.values())
        by = "the cache and the fork" if forked else "the cache"
        parts += [f"saved by {by}: {amount_text(saved)}"] if saved.hours else []
        count = len(self.unreadable)
        parts += [f"not counted: {count} damaged record{'' if count == 1 else 's'} of attempts"] if count else []
        return "; ".join(parts)


def run_cost(store: Store, run: Mapping[str, Any], entries: Mapping[str, Mapping[str, Any] | None]) -> RunCost:
    """Return what a run cost, given its run.json and the ledger entries of its stages, None for those without."""
    found, unreadable = attempts_of(store, run["run_id"])
    history = History(store, run["recipe"], before=run["run_id"])
    startup = history.startup(run.get("engine") or "local")
    stages = {}
    for planned in run.get("stages", ()):
        name, entry = planned["name"], entries.get(planned["name"])
        attempts, rate = tuple(found.get(name, ())), Rate.of_record(planned.get("rate"))
        models = models_of(entry) if entry else {}
        seconds = history.seconds(name, planned["component"], rate, models) if attempts and rate else None
        stages[name] = StageCost(
            name,
            planned.get("labels") or {},
            attempts,
            rate,
            rate.amount(seconds + startup.seconds(planned["component"])) if rate and seconds is not None else None,
            _saved(store, entry, rate) if entry else None,
        )
    return RunCost(stages, tuple(unreadable))


def _saved(store: Store, entry: Mapping[str, Any], rate: Rate | None) -> Amount | None:
    """Return what the work took that an entry reuses, or a fork shares, at the rate of its stage in this run."""
    if entry["cache"] != "hit":
        return rate.amount(float(entry["fork"]["seconds"])) if rate and "fork" in entry else None
    try:
        action = store.get(action_key(entry["fingerprint"]))
    except CorruptArtifact:  # the commands on damage report it
        return None
    return rate.amount(float(action["seconds"])) if action and rate else None


def with_cost(shown: dict[str, Any], cost: RunCost) -> dict[str, Any]:
    """Return a run as JSON with its cost, and each of its stages with its own."""
    stages = [
        stage | {"cost": found.to_json() if (found := cost.stages.get(stage["name"])) else None}
        for stage in shown["stages"]
    ]
    return shown | {"stages": stages, "cost": cost.to_json()}


def cost_cell(cost: StageCost | None) -> str:
    """Return a stage's cost for a table: what it took, or what the cache saved."""
    if cost is None or not (cost.attempts or cost.saved):
        return "-"
    if not cost.attempts:
        return f"saved {amount_text(cost.saved)}" if cost.saved else "-"
    tries = f" in {len(cost.attempts)} attempts" if len(cost.attempts) > 1 else ""
    return f"{amount_text(cost.amount, used=False)}{tries}"
