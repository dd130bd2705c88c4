"""Paired comparison of this evaluation with an earlier one of another model, by prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from components.contract.errors import InputError
from components.evaluate.report import Metrics
from components.measure.intervals import Bootstrap, Floats
from components.measure.ledger import PassRateRow, pass_rate_row
from components.measure.metrics import metric_key, write_json
from components.measure.outcomes import ItemOutcomes
from components.measure.paired import Comparison, compare, holm
from components.measure.passk import pass_at_k_values

Ledger = Mapping[str, Mapping[str, PassRateRow]]


def compare_with_baseline(
    folder: Path, outcomes: Mapping[str, Sequence[ItemOutcomes]], baseline: Ledger, bootstrap: Bootstrap
) -> Metrics:
    """Write comparison.json and return the differences of pass@1 (ours minus the baseline's) by metric name.

    Prompts are paired by id; p-values are Holm-adjusted over the domains. Raises InputError if the two evaluations
    share no prompt.
    """
    report: dict[str, dict[str, Any]] = {}
    first: dict[str, Comparison] = {}
    for domain, found in outcomes.items():
        pairs = _pairs(found, baseline.get(domain, {}))
        if pairs:
            compared = _compare_domain(pairs, bootstrap)
            first[domain] = compared["pass_at_1"]
            report[domain] = {"num_prompts": len(pairs), **{name: c.to_json() for name, c in compared.items()}}
    if not first:
        raise InputError("the baseline shares no prompt with the dataset; evaluate both models on the same dataset")
    adjusted = holm([comparison.p_permutation for comparison in first.values()])
    for domain, p_value in zip(first, adjusted, strict=True):
        report[domain]["p_permutation_holm"] = p_value
    write_json(folder / "comparison.json", report)
    return {metric_key("delta_pass_at_1", domain): c.difference for domain, c in first.items()}


def _pairs(
    outcomes: Sequence[ItemOutcomes], baseline: Mapping[str, PassRateRow]
) -> list[tuple[PassRateRow, PassRateRow]]:
    """Return (ours, theirs) of prompts that both evaluations verified at least once."""
    rows = [(pass_rate_row(o), baseline[o.item.id]) for o in outcomes if o.item.id in baseline]
    return [(ours, theirs) for ours, theirs in rows if _verified(ours) and _verified(theirs)]


def _compare_domain(pairs: Sequence[tuple[PassRateRow, PassRateRow]], bootstrap: Bootstrap) -> dict[str, Comparison]:
    """Compare pass@1, and pass@k at the largest k for which all prompts of both evaluations have samples."""
    largest = min(_verified(row) for pair in pairs for row in pair)
    sides = [[pair[side] for pair in pairs] for side in (0, 1)]
    compared: dict[str, Comparison] = {}
    for k in sorted({1, largest}):
        ours, theirs = (_values(side, k) for side in sides)
        compared[f"pass_at_{k}"] = compare(ours, theirs, bootstrap)
    return compared


def _values(rows: Sequence[PassRateRow], k: int) -> Floats:
    samples = np.array([_verified(row) for row in rows])
    return pass_at_k_values(samples, np.array([row.num_right for row in rows]), [k])[:, 0]


def _verified(row: PassRateRow) -> int:
    return row.num_right + row.num_wrong
