"""The record of a selection: the table of all candidates, their ledgers, and the chosen one's metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.artifacts import canonical_json
from components.measure.intervals import Bootstrap, Interval
from components.measure.ledger import pass_rate_row, write_ledger
from components.measure.metrics import metric_key, write_json, write_metrics
from components.measure.summary import prompt_table
from components.select.candidates import Candidate
from components.select.choose import Choice, Judged
from components.select.params import OWN_METRIC
from components.select.scores import Columns, Need, Outcomes

if TYPE_CHECKING:
    from components.select.params import SelectParams

Metrics = dict[str, Interval | float]


def candidate_metrics(outcomes: Outcomes, needs: Sequence[Need], bootstrap: Bootstrap, columns: Columns) -> Metrics:
    """Return a candidate's metrics per domain: pass@1, pass@n, what the rule needs, entropy, length, failures.

    What operators measure of it, `columns`, is beside them.
    """
    metrics: Metrics = {}
    for domain, found in outcomes.items():
        own = (metric for metric, need in needs if need == domain and OWN_METRIC.fullmatch(metric))
        ks = {1, found[0].num_samples, *(int(metric.rpartition("_")[2]) for metric in own)}
        for name, interval in prompt_table(found, sorted(ks)).intervals(bootstrap).items():
            metrics[metric_key(name, domain)] = interval
        for name, values in columns.get(domain, {}).items():
            interval = bootstrap.mean_interval([math.nan if value is None else value for value in values])
            if interval.n:
                metrics.setdefault(metric_key(name, domain), interval)
        metrics[metric_key("num_failed", domain)] = float(sum(outcome.num_failed for outcome in found))
    return metrics


def write_selection(
    folder: Path,
    params: SelectParams,
    candidates: Sequence[Candidate],
    duplicates: Mapping[str, str],
    metrics: Sequence[Metrics],
    choice: Choice,
) -> None:
    """Write selection.json: the rule, the winner and why, and every candidate with its numbers."""
    rows = zip(candidates, choice.judged, metrics, strict=True)
    report = {
        "objective": params.objective.model_dump(exclude=None if params.objective.minimise else {"minimise"}),
        "constraints": [constraint.model_dump() for constraint in params.constraints],
        "tie_rule": params.tie_rule,
        "confidence": params.confidence,
        "chosen": candidates[choice.chosen].name,
        "reason": choice.reason,
        "constraints_hold": choice.satisfied,
        "candidates": [_row(candidate, judged, measured) for candidate, judged, measured in rows],
        "duplicates": dict(duplicates),
    }
    write_json(folder / "selection.json", report)


def write_all_ledgers(folder: Path, candidates: Sequence[Candidate], measured: Sequence[Outcomes]) -> None:
    """Write passrates.jsonl of the report: the ledger of every candidate, with its name in each row."""
    with (folder / "passrates.jsonl").open("wb") as stream:
        for candidate, outcomes in zip(candidates, measured, strict=True):
            for outcome in (outcome for found in outcomes.values() for outcome in found):
                row = {"candidate": candidate.name, **pass_rate_row(outcome).model_dump()}
                stream.write(canonical_json(row) + b"\n")


def write_chosen(
    folder: Path, outcomes: Outcomes, metrics: Metrics, choice: Choice, columns: Columns
) -> dict[str, float]:
    """Write metrics.json and the ledger of the chosen model; return the stage's headline."""
    given = {metric_key(name, domain) for domain, column in columns.items() for name in column}
    judged = choice.judged[choice.chosen]
    summary: Metrics = {
        "objective": judged.objective,
        "num_candidates": float(len(choice.judged)),
        "num_rejected": float(sum(entry.shortfall > 0 for entry in choice.judged)),
        "num_tied": float(sum(entry.status in ("tied", "chosen") for entry in choice.judged)),
        "position": float(choice.chosen + 1),
    }
    if judged.scores.divergence is not None:
        summary["divergence"] = judged.scores.divergence
    write_metrics(folder, metrics | summary)
    write_ledger(folder, (pass_rate_row(outcome) for found in outcomes.values() for outcome in found))
    shown = {name: value for name, value in metrics.items() if name.startswith("pass_at_1_") or name in given}
    return {name: v.value if isinstance(v, Interval) else v for name, v in (summary | shown).items()}


def _row(candidate: Candidate, judged: Judged, metrics: Metrics) -> dict[str, Any]:
    return {
        "name": candidate.name,
        "step": candidate.step,
        "digest": candidate.digest,
        "status": judged.status,
        "objective": judged.objective.to_json(),
        "behind_best": judged.behind.to_json() if judged.behind else None,
        "constraints": [
            {
                **check.constraint.model_dump(),
                "measured": check.measured.to_json() if check.measured.n else None,
                "holds": check.holds,
            }
            for check in judged.checks
        ],
        "broken": [check.describe() for check in judged.checks if not check.holds],
        **({} if judged.scores.divergence is None else {"divergence": judged.scores.divergence}),
        "metrics": {name: v.to_json() if isinstance(v, Interval) else {"value": v} for name, v in metrics.items()},
    }
