"""Which runs to delete: by age, and all but the last of each recipe; never one that is active, pinned or young."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from components.runtime.ledger.sequence import in_order
from components.runtime.lineage.events import moment
from components.runtime.lineage.heal import read_or_copy
from components.runtime.upkeep.pins import RUNS, pinned

if TYPE_CHECKING:
    from components.runtime.store import Store
    from components.runtime.upkeep.inventory import Inventory


@dataclass(frozen=True)
class Rules:
    """Which runs to delete. Without a rule every run is kept, and only data that no run reaches is deleted."""

    older_than_seconds: float | None = None
    """Delete runs that ended longer ago than this."""
    keep_last: int | None = None
    """Number of newest runs of each recipe to keep, whatever their age."""
    undelivered: bool = False
    """Whether to delete runs whose lineage is not in MLflow yet."""
    grace_seconds: float = 86_400.0
    """Anything stored or used within this time is kept."""

    @property
    def select_runs(self) -> bool:
        """Return whether any run can be deleted."""
        return self.older_than_seconds is not None or self.keep_last is not None


@dataclass
class Selection:
    """The runs that the rules select, divided by what prevents deleting them."""

    gone: list[str] = field(default_factory=list)
    undelivered: list[str] = field(default_factory=list)
    """Runs that the rules select, but whose lineage is not in MLflow yet."""
    working: list[str] = field(default_factory=list)
    """Runs that the rules select, but that a process works on or used within the grace."""


def select_runs(store: Store, inventory: Inventory, rules: Rules) -> Selection:
    """Return which runs the rules select."""
    chosen = Selection()
    if not rules.select_runs:
        return chosen
    now, kept = time.time(), pinned(store, RUNS)
    newest = _newest(store, inventory, rules.keep_last or 0)
    for run_id in inventory.run_ids:
        entry = inventory.entry(run_id)
        if run_id in kept or run_id in newest or not entry.get("recipe"):
            continue
        if rules.older_than_seconds is not None and now - _ended(inventory, run_id) < rules.older_than_seconds:
            continue
        if inventory.is_at_work(run_id) or now - inventory.last_activity(run_id) < rules.grace_seconds:
            chosen.working.append(run_id)
        elif not rules.undelivered and not _is_delivered(store, inventory, run_id):
            chosen.undelivered.append(run_id)
        else:
            chosen.gone.append(run_id)
    return chosen


def _newest(store: Store, inventory: Inventory, count: int) -> set[str]:
    """Return the newest `count` runs of each recipe."""
    by_recipe: dict[str, list[str]] = {}
    for run_id in in_order(store, inventory.run_ids) if count else ():
        if recipe := inventory.entry(run_id).get("recipe"):
            by_recipe.setdefault(recipe, []).append(run_id)
    return {run_id for runs in by_recipe.values() for run_id in runs[-count:]}


def _ended(inventory: Inventory, run_id: str) -> float:
    """Return when a run ended, or its last activity."""
    end: Mapping[str, str] | None = inventory.end(run_id)
    return moment(end["ended"]).timestamp() if end else inventory.last_activity(run_id)


def _is_delivered(store: Store, inventory: Inventory, run_id: str) -> bool:
    """Return whether any tracking server has all of a run's lineage, except what it refused."""
    waiting = set(inventory.keys(run_id, "spool"))
    cursors = [read_or_copy(store, key) or {} for key in inventory.keys(run_id, "delivered")]
    return not waiting or any(
        waiting <= {*cursor.get("delivered", ()), *cursor.get("refused", ())} for cursor in cursors
    )
