"""The pass-rate ledger: how often each prompt was tried, and with what outcome."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any


@dataclass
class PassRate:
    """Outcomes of one prompt so far."""

    prompt_id: str
    domain: str
    num_samples: int = 0
    num_right: int = 0
    num_wrong: int = 0
    num_failed: int = 0

    @property
    def pass_rate(self) -> float | None:
        """Return the share of right ones among verified samples; None before any was verified."""
        verified = self.num_right + self.num_wrong
        return self.num_right / verified if verified else None


class PassRates:
    """Outcomes of all prompts that were tried, by prompt id, in the order of their first try."""

    def __init__(self, rows: Iterable[dict[str, Any]] = ()) -> None:
        self._by_id = {row["prompt_id"]: PassRate(**row) for row in rows}

    def __len__(self) -> int:
        return len(self._by_id)

    def __iter__(self) -> Iterator[PassRate]:
        return iter(self._by_id.values())

    def get(self, prompt_id: str) -> PassRate | None:
        """Return the outcomes of a prompt, or None if it was never tried."""
        return self._by_id.get(prompt_id)

    def add(self, prompt_id: str, domain: str, *, right: int = 0, wrong: int = 0, failed: int = 0) -> None:
        """Count outcomes of new samples."""
        entry = self._by_id.setdefault(prompt_id, PassRate(prompt_id, domain))
        entry.num_samples += right + wrong + failed
        entry.num_right += right
        entry.num_wrong += wrong
        entry.num_failed += failed

    def rows(self) -> list[dict[str, Any]]:
        """Return one JSON object per prompt: what `passrates.jsonl` holds."""
        return [asdict(entry) for entry in self]
