"""What a run remembers between steps beside weights, optimiser and random generators: plain JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from components.rl.ledger import PassRates
from components.rl.record import RolloutRecord


@dataclass
class LoopState:
    """Counters, the operators' memories, the pass-rate ledger and the rollout record."""

    record: RolloutRecord
    ledger: PassRates = field(default_factory=PassRates)
    memory: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Operator's place in the slots -> its own memory."""
    step: int = 0
    """Steps that are done."""
    num_samples: int = 0
    """Responses drawn so far."""

    def to_json(self) -> dict[str, Any]:
        """Return everything but the record's bounds, which are parameters."""
        return {
            "step": self.step,
            "num_samples": self.num_samples,
            "memory": self.memory,
            "ledger": self.ledger.to_json(),
            "record": self.record.state(),
        }

    @classmethod
    def from_json(cls, saved: dict[str, Any], *, browse_samples: int, right_samples: int) -> LoopState:
        """Restore what `to_json` returned."""
        return cls(
            record=RolloutRecord(browse_samples=browse_samples, right_samples=right_samples, state=saved["record"]),
            ledger=PassRates.from_json(saved["ledger"]),
            memory=saved["memory"],
            step=saved["step"],
            num_samples=saved["num_samples"],
        )
