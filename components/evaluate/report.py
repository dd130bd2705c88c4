"""The output of an evaluation: metrics, curves, calibration and samples to read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.measure.calibration import Calibration
from components.measure.intervals import Bootstrap, Interval
from components.measure.metrics import metric_key, write_json, write_metrics
from components.measure.outcomes import ItemOutcomes
from components.measure.summary import PromptTable, calibrations, over_domains, prompt_table

Metrics = dict[str, Interval | float]

OVERALL = ("pass_at_1", "mean_tokens", "entropy", "finished_share")
"""Statistics that every prompt has, so that a mean over domains is meaningful."""


@dataclass(frozen=True)
class DomainReport:
    """All measurements on one domain."""

    table: PromptTable
    intervals: dict[str, Interval]
    calibration: dict[str, Calibration]
    num_samples: int
    """Responses drawn per prompt."""
    counts: dict[str, int]
    """Prompts, and failed verifications."""

    def curve(self, kind: str) -> dict[int, Interval]:
        """Return k -> interval of "pass" or "maj"."""
        prefix = f"{kind}_at_"
        return {int(n.removeprefix(prefix)): v for n, v in self.intervals.items() if n.startswith(prefix)}

    def metrics(self, domain: str) -> Metrics:
        """Return the domain's entries of metrics.json: of the curves, k = 1, powers of two and the largest."""
        shown: Metrics = {}
        for name, interval in self.intervals.items():
            _, _, k = name.partition("_at_")
            if not k.isdigit() or int(k) == self.num_samples or int(k).bit_count() == 1:
                shown[metric_key(name, domain)] = interval
        for name, found in self.calibration.items():
            shown[metric_key(f"ece_{name}", domain)] = found.ece
        return shown | {metric_key(name, domain): float(count) for name, count in self.counts.items()}


def measure_domain(outcomes: Sequence[ItemOutcomes], ks: Sequence[int], bootstrap: Bootstrap) -> DomainReport:
    """Measure one domain's outcomes."""
    table = prompt_table(outcomes, ks)
    return DomainReport(
        table=table,
        intervals=table.intervals(bootstrap),
        calibration=calibrations(outcomes),
        num_samples=outcomes[0].num_samples,
        counts={
            "num_prompts": len(outcomes),
            "num_failed": sum(outcome.num_failed for outcome in outcomes),
        },
    )


def all_metrics(reports: Mapping[str, DomainReport], bootstrap: Bootstrap) -> Metrics:
    """Return the entries of metrics.json: every domain's, and means over domains if all domains have a value."""
    metrics: Metrics = {}
    for domain, report in reports.items():
        metrics |= report.metrics(domain)
    tables = {domain: report.table for domain, report in reports.items()}
    for name in OVERALL:
        if all(name in report.intervals for report in reports.values()):
            metrics[name] = over_domains(tables, name, bootstrap)
    for name in ("num_prompts", "num_failed"):
        metrics[name] = float(sum(report.counts[name] for report in reports.values()))
    return metrics


def headline(reports: Mapping[str, DomainReport], metrics: Metrics) -> dict[str, float]:
    """Return the metrics shown in tables and expressions: means first, then each domain's, without calibration."""
    wanted = ["pass_at_1", "entropy", "mean_tokens", "num_failed", *(n for n in metrics if n.startswith("delta_"))]
    for domain, report in reports.items():
        count = report.num_samples
        wanted += [metric_key(name, domain) for name in ("pass_at_1", f"pass_at_{count}", f"maj_at_{count}")]
        wanted += [name for name in report.metrics(domain) if not name.startswith(("ece_", "maj_", "num_prompts"))]
    values = {name: metrics[name] for name in wanted if name in metrics}
    return {name: value.value if isinstance(value, Interval) else value for name, value in values.items()}


def write_report(folder: Path, reports: Mapping[str, DomainReport], metrics: Metrics) -> None:
    """Write metrics.json, pass_at_k.json, maj_at_k.json and calibration.json."""
    write_metrics(folder, metrics)
    for kind in ("pass", "maj"):
        curves = {
            domain: {str(k): interval.to_json() for k, interval in report.curve(kind).items()}
            for domain, report in reports.items()
        }
        write_json(folder / f"{kind}_at_k.json", curves)
    found = {
        domain: {name: calibration.to_json() for name, calibration in report.calibration.items()}
        for domain, report in reports.items()
    }
    write_json(folder / "calibration.json", found)
