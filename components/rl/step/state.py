"""Settings shared by all steps of a run, and its state between steps beside weights, optimiser and generators."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from components.rl.sampler_correction import SamplerCorrection
from components.rl.step.accounts import Accounts
from components.rl.step.ledger import PassRates
from components.rl.step.record import RolloutRecord

if TYPE_CHECKING:
    from torch import Tensor


LOGS = VISITS_LOG, BROWSED_LOG = "visits", "browsed"
"""Append-only logs of the stage's checkpoints."""


@dataclass(frozen=True)
class LoopSettings:
    """Settings shared by all steps."""

    num_steps: int
    start_kl_every: int
    """Steps between measurements of the divergence from the starting policy; 0 for none."""
    browse_every: int
    """Steps between recorded samples for people to read."""
    sampler_correction: SamplerCorrection | None = None
    """When a step is corrected for its sampler's gap; None for never."""


@dataclass
class LoopState:
    """Counters, the operators' memories, the pass-rate ledger and the rollout record."""

    record: RolloutRecord
    ledger: PassRates = field(default_factory=PassRates)
    memory: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Operator's position in the slots -> its memory."""
    step: int = 0
    """Completed steps."""
    num_samples: int = 0
    """Responses drawn so far."""
    accounts: Accounts = field(default_factory=Accounts)

    def to_json(self) -> dict[str, Any]:
        """Return everything except the record's bounds, which are parameters, and the rows of the logs."""
        return {
            "step": self.step,
            "num_samples": self.num_samples,
            "memory": self.memory,
            "ledger": self.ledger.to_json(),
            "right": self.record.right_rows(),
            "accounts": self.accounts.to_json(),
        }

    def fresh_rows(self) -> dict[str, list[dict[str, Any]]]:
        """Return log -> rows that only grow, those since the last call; call it between steps."""
        return {VISITS_LOG: self.ledger.fresh_visits(), BROWSED_LOG: self.record.fresh_browsed()}

    @classmethod
    def from_json(
        cls,
        saved: Mapping[str, Any],
        rows: Mapping[str, Sequence[Mapping[str, Any]]],
        *,
        given: PassRates,
        browse_samples: int,
        right_samples: int,
    ) -> LoopState:
        """Restore what `to_json` and `fresh_rows` returned; `given` is the ledger that the stage began with."""
        return cls(
            record=RolloutRecord(
                browse_samples=browse_samples,
                right_samples=right_samples,
                browsed=rows[BROWSED_LOG],
                right=saved["right"],
            ),
            ledger=given.resumed(rows[VISITS_LOG], **saved["ledger"]),
            memory=saved["memory"],
            step=saved["step"],
            num_samples=saved["num_samples"],
            accounts=Accounts.from_json(saved.get("accounts", {})),
        )


def joined(parts: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Merge the tensors of several parts into one mapping of "<part>|<name>", for one file."""
    return {f"{kind}|{name}": tensor for kind, found in parts.items() for name, tensor in found.items()}


def separated(saved: Mapping[str, Tensor]) -> Mapping[str, dict[str, Tensor]]:
    """Undo `joined`; a part without tensors is empty."""
    parts: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for key, value in saved.items():
        kind, _, name = key.partition("|")
        parts[kind][name] = value
    return parts
