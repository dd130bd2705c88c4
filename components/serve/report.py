"""What a served model's evaluation writes: the evaluation's own files, and what its requests cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from components.evaluate.report import DomainReport, Metrics, measure_domain
from components.measure.harness.views import View, ViewTable, write_views
from components.measure.intervals import Bootstrap, Interval
from components.measure.metrics import write_json
from components.measure.outcomes import ItemOutcomes
from components.serve.exported import Exported
from components.serve.params import ServeParams
from components.serve.sampling import Sample

SERVING = "serving.json"
MOST_REASONS = 5
SHOWN = {
    "latency_p50_seconds": "median latency of a request, s",
    "latency_p95_seconds": "95 % of requests are answered within, s",
    "tokens_per_second": "tokens a second, all requests together",
    "requests_per_second": "requests a second",
    "startup_seconds": "start until healthy, s",
    "num_requests": "requests",
    "num_failed_requests": "failed requests",
}


def report_domains(
    outcomes: Mapping[str, Sequence[ItemOutcomes]], params: ServeParams, bootstrap: Bootstrap
) -> dict[str, DomainReport]:
    """Return every domain's measurements, by the code of stage evaluate; k goes up to the samples asked for."""
    return {
        domain: replace(
            measure_domain(found, params.wanted_ks(domain), bootstrap),
            num_samples=params.sampling(domain).num_samples,
        )
        for domain, found in outcomes.items()
    }


def request_metrics(samples: Sequence[Sample], num_requests: int, num_failed: int) -> Metrics:
    """Return how many requests there were, and what failed."""
    answered = {sample.item.id for sample in samples if not sample.failed}
    return {
        "num_requests": float(num_requests),
        "num_failed_requests": float(num_failed),
        "failed_request_share": num_failed / num_requests,
        "num_unanswered_prompts": float(len({sample.item.id for sample in samples} - answered)),
    }


def write_serving(
    folder: Path, exported: Exported, kind: str, metrics: Metrics, samples: Sequence[Sample], concurrency: int
) -> None:
    """Write serving.json and the view that the run's report shows."""
    reasons = Counter(sample.failed for sample in samples if sample.failed).most_common(MOST_REASONS)
    facts: dict[str, Any] = {
        "server": kind,
        "api": exported.api,
        "model": exported.digest,
        "concurrency": concurrency,
        "max_model_len": exported.max_model_len,
        "check": asdict(exported.check) if exported.check else None,
        "failures": dict(reasons),
    }
    write_json(folder / SERVING, facts)
    rows = [[title, metrics[name]] for name, title in SHOWN.items() if name in metrics]
    tables = [ViewTable("Requests", ("", "value"), rows)]
    if reasons:
        tables.append(ViewTable("Failed requests", ("reason", "samples"), [[why, float(n)] for why, n in reasons]))
    text = f"Asked of {_SERVERS[kind]} on this machine, {exported.api}, {concurrency} requests at a time."
    write_views(folder, {"Serving": View(text, tables=tables)})


_SERVERS = {"vllm": "vLLM's server", "transformers": "posttrain's server over transformers"}


def plain_values(metrics: Metrics) -> dict[str, float]:
    """Return metrics without their intervals."""
    return {name: value.value if isinstance(value, Interval) else value for name, value in metrics.items()}
