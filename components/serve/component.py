"""Declaration of the serve stage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Role, Views
from components.contract.operators import Bound
from components.evaluate.component import AT_K
from components.evaluate.component import COMPONENT as EVALUATE
from components.modeling.estimates.sampling_memory import sampling_memory
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.preloads import MODEL_PRELOADS
from components.serve.params import ServeParams, on_pool

SERVER = ("components.serve.server.app", "components.serve.server.guard")
"""What runs in processes of its own."""
SAMPLED = (
    "pass_at_1",
    "pass_at_1_<domain>",
    "pass_at_<k>_<domain>",
    "maj_at_<n>_<domain>",
    "delta_pass_at_1_<domain>",
    "entropy",
    "mean_tokens",
    "mean_tokens_right_<domain>",
    "mean_tokens_wrong_<domain>",
    "finished_share_<domain>",
    "answer_entropy_<domain>",
    "unique_answers_<domain>",
    "right_answers_<domain>",
    "right_responses_<domain>",
    "unique_responses_<domain>",
    "distinct_2_<domain>",
    "num_prompts_<domain>",
    "num_failed",
    "num_raised",
)
"""Metrics that mean what stage evaluate means by them."""


def sources(params: ServeParams) -> Iterator[Bound | str | Path]:
    """Yield the modules of the server and of what watches over it."""
    yield from SERVER


def unmeasured(params: ServeParams, metric: str) -> str | None:
    """Return why a metric is not measured with these parameters."""
    if metric.startswith("entropy") and not (params.temperature == 1 and params.top_p == 1):
        return "at another temperature than 1, or truncated, a server's log-probabilities are not the model's"
    found = AT_K.fullmatch(metric)
    counts = params.num_samples.values() if isinstance(params.num_samples, dict) else [params.num_samples]
    most = max(counts, default=1)
    return f"{found[2]} is more than the samples of a prompt, {most}" if found and int(found[2]) > most else None


COMPONENT = Component(
    name="serve",
    summary="Export a model, serve it on this machine, and measure it through the API: a canary before it is deployed",
    inputs={
        "model": Port(type=ArtifactType.MODEL, doc="The model to serve"),
        "dataset": EVALUATE.inputs["dataset"],
        "baseline": Port(
            type=ArtifactType.METRICS, doc="An evaluation on the same prompts, such as the model's own", optional=True
        ),
    },
    outputs={
        "metrics": Port(
            type=ArtifactType.METRICS,
            doc="Metrics with intervals, latency and throughput, pass@k curves, pass-rate ledger, samples, comparison",
        ),
        "deployment": Port(type=ArtifactType.REPORT, doc="A KServe InferenceService of the model"),
        "model": Port(
            type=ArtifactType.MODEL, doc="The folder as served, where the export completed the input", optional=True
        ),
    },
    params=ServeParams,
    run="components.serve.run:run",
    backends=frozenset({"sampler"}),
    model_sizes=ModelSizes.from_config,
    memory=sampling_memory,
    preloads=MODEL_PRELOADS,
    unmeasured=unmeasured,
    metrics={name: EVALUATE.metrics[name] for name in SAMPLED}
    | {
        "latency_p50_seconds": "Median seconds from a request to its whole answer",
        "latency_p95_seconds": "Seconds within which 95 % of the requests are answered",
        "tokens_per_second": "Tokens of all answers, by the time in which any request was under way",
        "requests_per_second": "The same of requests",
        "startup_seconds": "Seconds from the server's start until it was healthy",
        "num_requests": "Requests, one for each turn of each sample",
        "num_failed_requests": "Requests without an answer; none of them counts as wrong",
        "failed_request_share": "The same as a share of all",
        "num_unanswered_prompts": "Prompts without any answer, which are in no mean",
    },
    role=Role.OTHER,
    report=(Views(title="Served", file="views.json"),),
    sources=sources,
    verifies=lambda _: ("dataset",),
    on_pool=on_pool,
)
