"""The pass-rate ledger, `passrates.jsonl`: how often a model solved each prompt.

select and evaluate pair models by it, and replay measures forgetting from it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contract.artifacts import canonical_json
from components.contract.errors import InputError
from components.measure.outcomes import ItemOutcomes

LEDGER = "passrates.jsonl"


class PassRateRow(BaseModel):
    """One model's results on one prompt."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    prompt_id: str
    domain: str
    num_samples: int = Field(ge=0)
    num_right: int = Field(ge=0)
    num_wrong: int = Field(ge=0)
    num_failed: int = Field(ge=0)

    @property
    def value(self) -> float:
        """Return right ones as a share of verified ones (the prompt's pass@1), NaN when none was verified."""
        verified = self.num_right + self.num_wrong
        return self.num_right / verified if verified else math.nan


def pass_rate_row(outcomes: ItemOutcomes) -> PassRateRow:
    """Return the ledger's row of one prompt."""
    return PassRateRow(
        prompt_id=outcomes.item.id,
        domain=outcomes.item.domain,
        num_samples=outcomes.num_samples,
        num_right=outcomes.num_right,
        num_wrong=outcomes.num_wrong,
        num_failed=outcomes.num_failed,
    )


def write_ledger(folder: Path, rows: Iterable[PassRateRow]) -> None:
    """Write `passrates.jsonl` into a Metrics folder."""
    lines = [canonical_json(row.model_dump()) + b"\n" for row in rows]
    (folder / LEDGER).write_bytes(b"".join(lines))


def read_ledger(folder: Path) -> dict[str, dict[str, PassRateRow]]:
    """Return domain -> prompt id -> row of a Metrics folder that an evaluation wrote.

    Raises InputError when there is no ledger, or naming the line that is not a row of one.
    """
    path = folder / LEDGER
    if not path.is_file():
        raise InputError(f"{folder}: no {LEDGER}; give the metrics of an evaluate stage, not of a training stage")
    ledger: dict[str, dict[str, PassRateRow]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            row = PassRateRow.model_validate(json.loads(line))
        except (ValueError, ValidationError) as error:
            raise InputError(f"{path}:{number}: not a row of a pass-rate ledger: {error}") from error
        ledger.setdefault(row.domain, {})[row.prompt_id] = row
    return ledger
