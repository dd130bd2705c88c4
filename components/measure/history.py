"""How often a model solved each prompt over a training: the visits of an rl stage's ledger, oldest first."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from components.contract.errors import InputError
from components.measure.ledger import PassRateRow, read_ledger

VISITS = "visits.jsonl"


class Visit(BaseModel):
    """Outcomes of one prompt at one step of one policy."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    policy: str
    step: int
    prompt_id: str
    num_right: int = Field(ge=0)
    num_wrong: int = Field(ge=0)


@dataclass(frozen=True)
class PassHistory:
    """What one ledger knows."""

    totals: Mapping[str, PassRateRow]
    """Prompt id -> all outcomes."""
    visits: Mapping[str, Mapping[tuple[str, int], float]]
    """Prompt id -> (policy, step) -> pass rate, oldest first; visits without a verified sample are left out."""


def read_history(folder: Path) -> PassHistory:
    """Return the ledger of a Metrics folder; one that no rl stage wrote has no visits.

    Raises InputError when there is no ledger, or naming the line that is not a row of one.
    """
    totals = {prompt: row for rows in read_ledger(folder).values() for prompt, row in rows.items()}
    visits: dict[str, dict[tuple[str, int], float]] = {}
    path = folder / VISITS
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    for number, line in enumerate(lines, start=1):
        try:
            visit = Visit.model_validate(json.loads(line))
        except (ValueError, ValidationError) as error:
            raise InputError(f"{path}:{number}: not a visit of a pass-rate ledger: {error}") from error
        if verified := visit.num_right + visit.num_wrong:
            visits.setdefault(visit.prompt_id, {})[visit.policy, visit.step] = visit.num_right / verified
    return PassHistory(totals, visits)


def rates_over_time(ledgers: Iterable[PassHistory], prompt_id: str) -> list[float]:
    """Return a prompt's pass rates over its visits in all ledgers, oldest first; a visit in several counts once."""
    found: dict[tuple[str, int], float] = {}
    for ledger in ledgers:
        found |= ledger.visits.get(prompt_id, {})
    return list(found.values())


def latest_total(ledgers: Iterable[PassHistory], prompt_id: str) -> PassRateRow | None:
    """Return a prompt's outcomes in the last ledger that verified any; None where none did."""
    found = [row for ledger in ledgers if (row := ledger.totals.get(prompt_id)) and not math.isnan(row.value)]
    return found[-1] if found else None
