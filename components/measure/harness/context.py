"""What an operator of an evaluation is given beside the outcomes, and what a strategy returns.

Shapes: P prompts of a domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from components.contract.artifacts import METRICS_FILE
from components.contract.errors import InputError
from components.measure.harness.values import Values, read_values
from components.measure.intervals import Bootstrap
from components.measure.ledger import PassRateRow, read_ledger
from components.measure.metrics import metric_key, read_metrics
from components.measure.outcomes import ItemOutcomes
from components.measure.passk import pass_at_k_values

if TYPE_CHECKING:
    from components.measure.intervals import Floats
    from components.modeling.generation.sampler import Sampler
    from components.modeling.serving.further import FurtherModel


@dataclass(frozen=True)
class Baseline:
    """An evaluation of another model on the same prompts."""

    folder: Path

    @cached_property
    def ledger(self) -> dict[str, dict[str, PassRateRow]]:
        """Return domain -> prompt id -> its results; raise InputError when the folder has no ledger."""
        return read_ledger(self.folder)

    @cached_property
    def values(self) -> Values:
        """Return metric -> prompt id -> value of its metric operators; empty if it had none."""
        return read_values(self.folder)

    def metric(self, name: str, domain: str) -> float | None:
        """Return a domain's metric, or None if it was not measured."""
        found = read_metrics(self.folder) if (self.folder / METRICS_FILE).is_file() else {}
        entry = found.get(metric_key(name, domain))
        return None if entry is None else float(entry["value"])


@dataclass(frozen=True)
class MeasureContext:
    """Everything that an operator may read, and the only way to draw more."""

    bootstrap: Bootstrap
    """How intervals are made."""
    seed: int = 0
    """Of the stage; the same for every model, so that draws pair."""
    ks: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Domain -> budgets of samples to measure, ascending."""
    baseline: Baseline | None = None
    pairs: Sequence[Path] = ()
    """Datasets of preferences at input `pairs`."""
    further: Mapping[str, Sequence[FurtherModel]] = field(default_factory=dict)
    """Port -> its further models."""
    max_new_tokens: int = 64
    """Longest response of the evaluation."""
    temperature: float = 1.0
    """Of its samples."""
    sampler: Sampler | None = None
    """Draws from the measured model, whose policy it has."""

    def ks_of(self, outcomes: Sequence[ItemOutcomes]) -> list[int]:
        """Return the budgets of one domain's outcomes: the wanted ones, else 1, 2, 4 ... and all samples."""
        drawn = outcomes[0].num_samples
        wanted = self.ks.get(outcomes[0].item.domain) or powers_of_two(drawn)
        return [k for k in wanted if k <= drawn]


def powers_of_two(most: int) -> list[int]:
    """Return 1, 2, 4 ... up to `most`, and `most` itself."""
    return sorted({most, *(1 << power for power in range(most.bit_length()) if 1 << power <= most)})


@dataclass(frozen=True)
class Spent:
    """What a budget gains and costs."""

    accuracy: Sequence[float | None]
    """[P] chance that the answer is right; None for a prompt where it cannot be told."""
    tokens: Sequence[float | None]
    """[P] tokens drawn to get it."""


@dataclass(frozen=True)
class Pairs:
    """Prompts of a domain that two evaluations verified with equally many samples."""

    ours: tuple[PassRateRow, ...]
    theirs: tuple[PassRateRow, ...]
    num_left_out: int
    """Prompts of ours without a partner, or with failed verifications on either side."""
    num_samples: int

    def pass_at(self, ks: Sequence[int]) -> tuple[Floats, Floats]:
        """Return pass@k of ours and of theirs, [P, K] each."""
        ours, theirs = (
            pass_at_k_values([self.num_samples] * len(rows), [row.num_right for row in rows], ks)
            for rows in (self.ours, self.theirs)
        )
        return ours, theirs


def paired(
    owner: str, outcomes: Mapping[str, Sequence[ItemOutcomes]], rows: Mapping[str, Mapping[str, PassRateRow]]
) -> Iterator[tuple[str, Pairs]]:
    """Yield the pairs of each domain, ours given as outcomes; `owner` begins what is wrong.

    Solved or not depends on the number of samples, so both sides must have drawn equally many. Raises InputError where
    they have not, and where no domain has a pair.
    """
    found = False
    for domain, here in outcomes.items():
        there = rows.get(domain, {})
        shared = [(one, there[one.item.id]) for one in here if one.item.id in there]
        counts = {(one.num_samples, row.num_samples) for one, row in shared}
        for ours, theirs in sorted(counts):
            if ours != theirs:
                raise InputError(
                    f"{owner}: {ours} samples of each prompt of {domain!r} here, {theirs} in the baseline; whether a "
                    "prompt is solved depends on how often it was tried, so give both evaluations the same num_samples"
                )
        whole = [(one, row) for one, row in shared if not one.num_failed and not row.num_failed]
        if whole:
            found = True
            ledger = tuple(
                PassRateRow(
                    prompt_id=one.item.id,
                    domain=domain,
                    num_samples=one.num_samples,
                    num_right=one.num_right,
                    num_wrong=one.num_wrong,
                    num_failed=0,
                )
                for one, _ in whole
            )
            left = len(here) - len(whole)
            yield domain, Pairs(ledger, tuple(row for _, row in whole), left, whole[0][0].num_samples)
    if not found:
        raise InputError(f"{owner}: the baseline shares no verified prompt with the dataset; evaluate both on the same")
