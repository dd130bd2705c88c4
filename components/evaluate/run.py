"""The evaluate stage: sample every prompt, verify every response, write the measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.contract.further import JUDGES, PARTNERS, REFERENCE, SCORERS
from components.evaluate.compare import compare_with_baseline
from components.evaluate.exact import score_right_responses
from components.evaluate.exact_report import report_domain, write_probabilities
from components.evaluate.report import Metrics, all_metrics, headline, measure_domain, write_report
from components.measure.alarms import JUDGED, RAISED, VERIFIER_RAISES
from components.measure.browse import write_samples
from components.measure.chosen import agreed, column_metrics, metric_columns, strategies_of, views_of
from components.measure.dataset import read_prompts, require_verdicts
from components.measure.fitting import fitting_items
from components.measure.harness.context import Baseline, MeasureContext
from components.measure.harness.values import write_values
from components.measure.harness.views import write_views
from components.measure.intervals import Bootstrap, Interval
from components.measure.journal import Journal
from components.measure.ledger import pass_rate_row, read_ledger, write_ledger
from components.measure.likelihood import likelihood_metrics
from components.measure.outcomes import ItemOutcomes
from components.measure.sampling import blocks, sample_blocks
from components.modeling.generation.choose import open_sampler
from components.modeling.generation.sampler import Sampler
from components.modeling.loading.load import load_policy
from components.modeling.serving.further import FurtherModels
from components.modeling.serving.reward_model import LocalRewardModel
from components.tasks.item import Item

if TYPE_CHECKING:
    from components.evaluate.params import EvaluateParams
    from components.modeling.models.policy import Policy


def run(ctx: StageContext[EvaluateParams]) -> None:
    """Measure input `model` on input `dataset` and write output `metrics`."""
    params, bootstrap = ctx.params, ctx.params.bootstrap(ctx.seed)
    prompts = read_prompts(artifact.path for artifact in ctx.inputs("dataset"))
    params.check_domains(prompts)
    if params.exact:
        _refuse_samples(ctx)
    baselines = [read_ledger(artifact.path) for artifact in ctx.inputs("baseline")]
    policy = load_policy(ctx.input("model").path, device=ctx.device, dtype=params.dtype)
    policy.keep_special_tokens(params.keep_special_tokens)
    longest = {domain: params.sampling(domain).max_new_tokens for domain in prompts}
    prompts, left_out = fitting_items(policy, prompts, longest.__getitem__, params.overlong, ctx)
    if params.exact:
        _run_exactly(ctx, policy, prompts, bootstrap, left_out)
        return
    with FurtherModels(ctx, SCORERS, REFERENCE, JUDGES, PARTNERS) as further:
        with open_sampler(policy, ctx.job.resources) as sampler:
            outcomes = _sample(ctx, sampler, prompts)
            require_verdicts(outcomes)
            chosen = _chosen(ctx, sampler, further, outcomes) if params.chosen else {}
        language = [one for one in further.of(SCORERS) if not isinstance(one, LocalRewardModel)]
        likelihoods = likelihood_metrics(language, outcomes, bootstrap)
        further.write_answers(ctx.output("metrics"))

    reports = {domain: measure_domain(found, params.wanted_ks(domain), bootstrap) for domain, found in outcomes.items()}
    metrics = all_metrics(reports, bootstrap) | likelihoods
    chosen = agreed(chosen, metrics)
    metrics |= chosen
    folder = ctx.output("metrics")
    metrics |= left_out
    for baseline in baselines:
        metrics |= compare_with_baseline(folder, outcomes, baseline, bootstrap)
    write_report(folder, reports, metrics)
    write_ledger(folder, (pass_rate_row(outcome) for found in outcomes.values() for outcome in found))
    write_samples(folder, outcomes, prompts=params.browse_prompts, responses=params.browse_responses)
    _tell_raised(ctx, outcomes)
    ctx.describe("metrics", kind="evaluation", domains=sorted(outcomes), num_prompts=sum(map(len, outcomes.values())))
    shown = {name: one.value if isinstance(one, Interval) else one for name, one in (likelihoods | chosen).items()}
    ctx.headline(**(headline(reports, metrics) | shown | left_out))


def _chosen(
    ctx: StageContext[EvaluateParams],
    sampler: Sampler,
    further: FurtherModels,
    outcomes: Mapping[str, Sequence[ItemOutcomes]],
) -> Metrics:
    """Return what the chosen operators measure, and write their values by prompt and their views."""
    params, folder = ctx.params, ctx.output("metrics")
    baselines = [Baseline(artifact.path) for artifact in ctx.inputs("baseline")]
    context = MeasureContext(
        bootstrap=params.bootstrap(ctx.seed),
        seed=ctx.seed,
        ks={domain: params.wanted_ks(domain) for domain in outcomes} if params.ks else {},
        baseline=baselines[0] if baselines else None,
        pairs=[artifact.path for artifact in ctx.inputs("pairs")],
        further=further.by_port,
        max_new_tokens=params.max_new_tokens,
        temperature=params.temperature,
        sampler=sampler,
    )
    columns = metric_columns(params.metrics, outcomes, context)
    views = views_of(params.diagnostics, outcomes, context)
    spent, shown = strategies_of(params.strategies, outcomes, context)
    write_values(folder, outcomes, columns)
    write_views(folder, views | ({"strategies": shown} if params.strategies else {}))
    of_views = {name: value for view in views.values() for name, value in view.metrics.items()}
    return column_metrics(columns, outcomes, context) | of_views | spent


def _refuse_samples(ctx: StageContext[EvaluateParams]) -> None:
    for port in ("baseline", SCORERS):
        if ctx.inputs(port):
            raise InputError(f"exact: no samples are drawn, which input {port} is about: leave one of the two out")


def _run_exactly(
    ctx: StageContext[EvaluateParams],
    policy: Policy,
    prompts: Mapping[str, Sequence[Item]],
    bootstrap: Bootstrap,
    left_out: Metrics,
) -> None:
    """Score every right response in the place of sampling, and write what follows from their probabilities."""
    params, folder = ctx.params, ctx.output("metrics")
    items = [item for found in prompts.values() for item in found]
    options = {"max_new_tokens": params.max_new_tokens, "temperature": params.temperature}
    scored = iter(score_right_responses(policy, items, **options, progress=ctx.progress))
    by_domain = {domain: [next(scored) for _ in found] for domain, found in prompts.items()}
    reports = {
        domain: report_domain(found, params.wanted_ks(domain), params.sampling(domain).num_samples, bootstrap)
        for domain, found in by_domain.items()
    }
    metrics = all_metrics(reports, bootstrap) | left_out
    write_report(folder, reports, metrics)
    write_probabilities(folder, by_domain)
    ctx.describe("metrics", kind="evaluation", domains=sorted(prompts), num_prompts=len(items), exact=True)
    ctx.headline(**(headline(reports, metrics) | left_out))


def _tell_raised(ctx: StageContext[EvaluateParams], outcomes: Mapping[str, Sequence[ItemOutcomes]]) -> None:
    """Log how many responses count as wrong because a user's verifier raised on them, if there are any."""
    found = [outcome for part in outcomes.values() for outcome in part]
    reasons = [reason for outcome in found for reason in outcome.raised]
    if reasons:
        ctx.explain(VERIFIER_RAISES, reasons[0])
        ctx.headline(**{RAISED: float(len(reasons))})
        ctx.log(1, **{RAISED: float(len(reasons)), JUDGED: float(sum(outcome.num_samples for outcome in found))})


def _sample(
    ctx: StageContext[EvaluateParams], sampler: Sampler, prompts: Mapping[str, Sequence[Item]]
) -> dict[str, list[ItemOutcomes]]:
    """Return the outcomes of every domain's prompts, block by block so that a killed stage continues."""
    items = [item for found in prompts.values() for item in found]
    journal = Journal(ctx, items, every=ctx.params.checkpoint_every)
    parts = [
        (domain, f"{domain}/{number}", block, sampling)
        for domain, found in prompts.items()
        for sampling in [ctx.params.sampling(domain)]
        for number, block in enumerate(blocks(found, sampling))
    ]
    open_parts = ((block, sampling) for _, name, block, sampling in parts if name not in journal)
    cut = ctx.params.overlong == "truncate_left"
    measured = sample_blocks(sampler, open_parts, seed=ctx.seed, cut=cut)
    outcomes: dict[str, list[ItemOutcomes]] = {domain: [] for domain in prompts}
    done = 0
    for domain, name, block, _ in parts:
        outcomes[domain] += journal.part(name, partial(next, measured))
        done += len(block)
        ctx.progress(done, len(items))
    return outcomes
