"""What selectors and mixtures may read of their stage."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.errors import InputError
from components.measure.history import PassHistory, latest_total, rates_over_time, read_history
from components.measure.ledger import PassRateRow
from components.tasks.rows import read_rows

if TYPE_CHECKING:
    from components.contract.context import StageContext

LEDGER, TARGETS, POLICY, MIXTURE = "ledger", "targets", "policy", "mixture"


@dataclass(frozen=True)
class SelectionContext:
    """The inputs of a curate stage, read when they are asked for."""

    stage: StageContext[Any]

    @property
    def seed(self) -> int:
        """Return the stage's seed."""
        return self.stage.seed

    @cached_property
    def ledgers(self) -> tuple[PassHistory, ...]:
        """Return the ledgers in the order of the recipe."""
        return tuple(read_history(found.path) for found in self.stage.inputs(LEDGER))

    def ledger(self, position: int, role: str) -> PassHistory:
        """Return the ledger at a position; raise InputError that names its role where fewer are connected."""
        if position >= len(self.ledgers):
            raise InputError(f"{role}: ledger {position} of {len(self.ledgers)} that are connected, counted from 0")
        return self.ledgers[position]

    def rates(self, prompt_id: str) -> list[float]:
        """Return a prompt's pass rates over its visits, oldest first."""
        return rates_over_time(self.ledgers, prompt_id)

    def total(self, prompt_id: str) -> PassRateRow | None:
        """Return a prompt's outcomes in the last ledger that has any."""
        return latest_total(self.ledgers, prompt_id)

    @cached_property
    def targets(self) -> list[dict[str, Any]]:
        """Return the rows of the datasets at input `targets`."""
        return [row for found in self.stage.inputs(TARGETS) for row in read_rows(found.path)]

    @property
    def policy(self) -> Path:
        """Return the folder of the model at input `policy`."""
        return self.stage.input(POLICY).path

    def mixture(self) -> Mapping[str, Path]:
        """Return the metrics at input `mixture`, by where they came from."""
        return {found.source: found.path for found in self.stage.inputs(MIXTURE)}
