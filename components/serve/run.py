"""The serve stage: export a model, serve it on loopback, ask what stage evaluate samples, and measure the answers."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from components.contract.context import StageContext
from components.contract.endpoints import Endpoint
from components.contract.errors import StageFailed
from components.evaluate.compare import compare_with_baseline
from components.evaluate.report import Metrics, all_metrics, headline, write_report
from components.measure.browse import write_samples
from components.measure.dataset import read_prompts, require_verdicts
from components.measure.ledger import pass_rate_row, read_ledger, write_ledger
from components.measure.outcomes import by_domain
from components.modeling.serving.asking import Answer, Request
from components.serve.asking import ServedAsker, ask_all, without_proxy
from components.serve.exported import Exported, export
from components.serve.kserve import MANIFEST, manifest
from components.serve.report import plain_values, report_domains, request_metrics, write_serving
from components.serve.sampling import Asking, Sample, outcomes_of
from components.serve.server.commands import Serving, command_for, server_kind
from components.serve.server.process import ServerProcess
from components.serve.timings import timings
from components.tasks.item import Item

if TYPE_CHECKING:
    from components.serve.params import ServeParams

BROWSED_PROMPTS, BROWSED_RESPONSES = 16, 4
LONGEST_PAUSE = 5.0
"""Seconds before a further try: the server is our own, and near."""


def run(ctx: StageContext[ServeParams]) -> None:
    """Write outputs `metrics` and `deployment`, and `model` if the export completed it."""
    params = ctx.params
    prompts = read_prompts(artifact.path for artifact in ctx.inputs("dataset"))
    params.check_domains(prompts)
    baselines = [read_ledger(artifact.path) for artifact in ctx.inputs("baseline")]
    items = [item for found in prompts.values() for item in found]
    exported = export(ctx, items, api=params.api, check=params.check)
    samples, asked, startup = _ask(ctx, exported, prompts)
    failed = [sample for sample in samples if sample.failed]
    _refuse_failures(params, samples, failed, asked)
    outcomes = by_domain(outcomes_of(samples))
    require_verdicts(outcomes)
    bootstrap = params.bootstrap(ctx.seed)
    reports = report_domains(outcomes, params, bootstrap)
    metrics: Metrics = _own(all_metrics(reports, bootstrap), params)
    answers = [answer for answer in asked.values() if "seconds" in answer]
    metrics |= timings(answers, bootstrap) | request_metrics(samples, len(asked), len(asked) - len(answers))
    metrics["startup_seconds"] = startup
    folder = ctx.output("metrics")
    for baseline in baselines:
        metrics |= compare_with_baseline(folder, outcomes, baseline, bootstrap)
    write_report(folder, reports, metrics)
    write_ledger(folder, (pass_rate_row(outcome) for found in outcomes.values() for outcome in found))
    write_samples(folder, outcomes, prompts=BROWSED_PROMPTS, responses=BROWSED_RESPONSES)
    kind = server_kind(ctx.job.resources)
    write_serving(folder, exported, kind, metrics, samples, params.rows_at_a_time)
    text = manifest(params, store=ctx.job.store, digest=exported.digest)
    (ctx.output("deployment") / MANIFEST).write_text(text, encoding="utf-8")
    ctx.describe("metrics", kind="served evaluation", domains=sorted(outcomes), server=kind)
    raised = sum(len(outcome.raised) for found in outcomes.values() for outcome in found)
    ctx.headline(**headline(reports, metrics), **_of_requests(metrics), **({"num_raised": raised} if raised else {}))


def _own(metrics: Metrics, params: ServeParams) -> Metrics:
    """Return what the samples measure: log-probabilities of another distribution than the model's are no entropy."""
    plain = params.temperature == 1 and params.top_p == 1
    return metrics if plain else {name: one for name, one in metrics.items() if not name.startswith("entropy")}


def _of_requests(metrics: Metrics) -> dict[str, float]:
    mine = (
        "latency_",
        "tokens_per",
        "requests_per",
        "startup_",
        "num_requests",
        "num_failed_req",
        "failed_",
        "num_unan",
    )
    return plain_values({name: value for name, value in metrics.items() if name.startswith(mine)})


def _refuse_failures(
    params: ServeParams, samples: Sequence[Sample], failed: Sequence[Sample], asked: Mapping[str, Answer]
) -> None:
    """Raise StageFailed where more failed than the recipe allows, or a domain has no answer at all."""
    count = sum("seconds" not in answer for answer in asked.values())
    why = f"such as: {failed[0].failed}" if failed else ""
    if count > params.max_failed_share * len(asked):
        raise StageFailed(
            f"{count} of {len(asked)} requests failed (max_failed_share {params.max_failed_share:g}), {why}"
        )
    domains = {sample.item.domain for sample in samples}
    if lost := sorted(domains - {sample.item.domain for sample in samples if not sample.failed}):
        raise StageFailed(f"no request of domain {lost[0]!r} was answered, {why}")


def _ask(
    ctx: StageContext[ServeParams], exported: Exported, prompts: Mapping[str, Sequence[Item]]
) -> tuple[list[Sample], dict[str, Answer], float]:
    """Serve the model and ask for every sample; return them, all answers by request, and the seconds of the start."""
    params, key = ctx.params, secrets.token_urlsafe(32)
    serving = Serving(
        folder=exported.folder,
        model=f"posttrain-{secrets.token_hex(4)}",
        key=key,
        dtype=params.dtype,
        max_model_len=exported.max_model_len,
        rows=params.rows_at_a_time,
    )
    server = ServerProcess(
        serving,
        lambda port: command_for(serving, port, ctx.job.resources, ctx.device),
        ctx.scratch / "server.log",
        start_seconds=params.start_timeout_seconds,
    )
    samples = [
        Sample(item, number)
        for domain, found in prompts.items()
        for item in found
        for number in range(params.sampling(domain).num_samples)
    ]
    asking = Asking(exported.api, serving.model, exported.digest, key, ctx.seed)
    with server, without_proxy():
        endpoint = Endpoint(
            base_url=server.base_url,
            model=serving.model,
            api=exported.api,
            concurrency=params.rows_at_a_time,
            timeout_seconds=params.request_timeout_seconds,
            retries=params.retries,
            max_wait_seconds=LONGEST_PAUSE,
        )
        asked = _Answers(ctx, len(samples))
        asker = ServedAsker(endpoint, key, asked.keep, alive=lambda: server.alive)
        try:
            _write_turns(
                ctx, asking, asker, samples, asked, ended=lambda: None if server.alive else server.how_it_ended()
            )
        finally:
            asker.close()
    return samples, asked.found, server.startup_seconds


def _write_turns(
    ctx: StageContext[ServeParams],
    asking: Asking,
    asker: ServedAsker,
    samples: Sequence[Sample],
    asked: _Answers,
    *,
    ended: Callable[[], str | None],
) -> None:
    """Ask turn by turn, since each is written after the one before; conversations of one turn are all asked at once."""
    while open_samples := [sample for sample in samples if sample.is_open]:
        requests = [asking.request(one, ctx.params.sampling(one.item.domain)) for one in open_samples]
        ask_all(asker, [request for request in requests if not asked.has(request)], ended=ended)
        for sample, request in zip(open_samples, requests, strict=True):
            sample.take(asked.found[request.key])


class _Answers:
    """What was answered, by request; answers of earlier attempts count, and failures are asked again."""

    def __init__(self, ctx: StageContext[Any], total: int) -> None:
        self._ctx, self._total = ctx, total
        self._earlier = ctx.records()
        self.found: dict[str, Answer] = {}

    def has(self, request: Request) -> bool:
        if request.key in self._earlier:
            self.found[request.key] = dict(self._earlier[request.key])
        return request.key in self.found

    def keep(self, request: Request, answer: Answer) -> None:
        self.found[request.key] = answer
        if "seconds" in answer and "refused" not in answer:
            self._ctx.record(request.key, answer)
        self._ctx.progress(min(len(self.found), self._total), self._total)
