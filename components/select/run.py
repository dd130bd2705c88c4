"""The select stage: measure every candidate on the same prompts, apply the rule, keep the record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Self

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.measure.browse import write_samples
from components.measure.chosen import metric_columns, strategy_columns
from components.measure.dataset import read_prompts
from components.measure.harness.context import MeasureContext, powers_of_two
from components.measure.harness.values import Column
from components.measure.journal import Journal
from components.measure.ledger import read_ledger
from components.measure.measure_params import require_domain
from components.measure.outcomes import ItemOutcomes
from components.measure.sampling import sample_and_verify
from components.modeling.generation.choose import open_sampler
from components.modeling.generation.sampler import Sampler
from components.modeling.loading.load import load_policy
from components.select.candidates import copy_model, find_candidates, model_digest
from components.select.choose import choose
from components.select.divergence import divergences
from components.select.params import budget
from components.select.record import candidate_metrics, write_all_ledgers, write_chosen, write_selection
from components.select.scores import Need, Outcomes, Scores, scores_of_ledger, scores_of_outcomes
from components.tasks.item import Item

if TYPE_CHECKING:
    from components.select.params import SelectParams

Prompts = Mapping[str, Sequence[Item]]
BROWSE_PROMPTS, BROWSE_RESPONSES = 16, 4
"""Prompts of each domain whose responses by the chosen model are kept for people to read, and how many of each."""


def run(ctx: StageContext[SelectParams]) -> None:
    """Write the best of the candidates as output `model`, its `metrics`, and the `report` on all of them."""
    params, bootstrap = ctx.params, ctx.params.bootstrap(ctx.seed)
    prompts = read_prompts(artifact.path for artifact in ctx.inputs("dataset"))
    needs = _needs(ctx, list(prompts))
    candidates, duplicates = find_candidates(ctx.inputs("checkpoints"), ctx.inputs("models"))
    with _Measurer(ctx, prompts, total=len(candidates)) as measurer:
        measured = [measurer.outcomes(candidate.path, candidate.digest) for candidate in candidates]
        baseline = _baseline(ctx, measurer, prompts, needs)
    columns = [_columns(ctx, found) for found in measured]
    scores = [
        scores_of_outcomes(candidate.name, found, needs, given)
        for candidate, found, given in zip(candidates, measured, columns, strict=True)
    ]
    if params.rule == "elbow":
        far = divergences(ctx, candidates, measured, ctx.inputs("baseline")[0].path)
        scores = [replace(one, divergence=nats) for one, nats in zip(scores, far, strict=True)]
    choice = choose(scores, baseline, params, list(prompts), ctx.seed)

    metrics = [
        candidate_metrics(found, needs, bootstrap, given) for found, given in zip(measured, columns, strict=True)
    ]
    copy_model(candidates[choice.chosen].path, ctx.output("model"))
    write_selection(ctx.output("report"), params, candidates, duplicates, metrics, choice)
    write_all_ledgers(ctx.output("report"), candidates, measured)
    chosen = choice.chosen
    write_samples(ctx.output("metrics"), measured[chosen], prompts=BROWSE_PROMPTS, responses=BROWSE_RESPONSES)
    ctx.headline(**write_chosen(ctx.output("metrics"), measured[chosen], metrics[chosen], choice, columns[chosen]))


def _needs(ctx: StageContext[SelectParams], domains: list[str]) -> list[Need]:
    """Return what must be measured; raise InputError for what the dataset or num_samples do not allow."""
    params = ctx.params
    params.check_domains(domains)
    wanted = [("objective", params.objective.metric, name) for name in params.objective.domain_weights(domains)]
    wanted += [("constraints", constraint.metric, constraint.domain) for constraint in params.constraints]
    for owner, metric, domain in wanted:
        require_domain(domain, domains, owner)
        drawn, k = params.sampling(domain).num_samples, budget(metric)
        if k > drawn:
            raise InputError(f"{owner}: {metric} on {domain!r} needs {k} samples per prompt; num_samples is {drawn}")
    drops = any(constraint.max_drop is not None for constraint in params.constraints)
    if drops and len(ctx.inputs("baseline")) + len(ctx.inputs("baseline_metrics")) != 1:
        raise InputError("a max_drop constraint needs one of the inputs 'baseline' and 'baseline_metrics' to drop from")
    if params.rule == "elbow" and not ctx.inputs("baseline"):
        raise InputError("rule elbow needs input 'baseline', the model that divergence is measured from")
    return list(dict.fromkeys((metric, domain) for _, metric, domain in wanted))


def _columns(ctx: StageContext[SelectParams], outcomes: Outcomes) -> dict[str, Column]:
    """Return what operators measure of a model: domain -> metric -> a value for each prompt."""
    params = ctx.params
    if not params.chosen:
        return {}
    named = {budget(params.objective.metric), *(budget(constraint.metric) for constraint in params.constraints)}
    ks = {domain: sorted({*powers_of_two(found[0].num_samples), *named}) for domain, found in outcomes.items()}
    context = MeasureContext(bootstrap=params.bootstrap(ctx.seed), seed=ctx.seed, ks=ks)
    of_metrics = metric_columns(params.metrics, outcomes, context)
    of_strategies = strategy_columns(params.strategies, outcomes, context)
    return {domain: {**of_metrics[domain], **of_strategies[domain]} for domain in outcomes}


class _Measurer:
    """Samples models on the development set, all with the same random numbers for paired comparison."""

    def __init__(self, ctx: StageContext[SelectParams], prompts: Prompts, total: int) -> None:
        self._ctx, self._prompts, self._total, self._done = ctx, prompts, total, 0
        items = [item for found in prompts.values() for item in found]
        self._journal = Journal(ctx, items, every=ctx.params.checkpoint_every * len(prompts))
        self._sampler: Sampler | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sampler is not None:
            self._sampler.close()

    def outcomes(self, path: Path, digest: str) -> dict[str, list[ItemOutcomes]]:
        """Return a model's outcomes by domain; a model already measured, by digest, is not loaded again."""

        @cache
        def sampler() -> Sampler:
            policy = load_policy(path, device=self._ctx.device, dtype=self._ctx.params.dtype)
            policy.keep_special_tokens(self._ctx.params.keep_special_tokens)
            if self._sampler is None:
                self._sampler = open_sampler(policy, self._ctx.job.resources)
            else:
                self._sampler.load_weights(policy)
            return self._sampler

        found = {
            domain: self._journal.part(f"{digest}/{domain}", partial(self._sample, sampler, domain))
            for domain in self._prompts
        }
        self._done = min(self._done + 1, self._total)  # the baseline is not counted
        self._ctx.progress(self._done, self._total)
        return found

    def _sample(self, sampler: Callable[[], Sampler], domain: str) -> list[ItemOutcomes]:
        sampling = self._ctx.params.sampling(domain)
        return sample_and_verify(sampler(), self._prompts[domain], sampling, seed=self._ctx.seed)


def _baseline(
    ctx: StageContext[SelectParams], measurer: _Measurer, prompts: Prompts, needs: Sequence[Need]
) -> Scores | None:
    for artifact in ctx.inputs("baseline"):
        found = measurer.outcomes(artifact.path, model_digest(artifact.path))
        return scores_of_outcomes("baseline", found, needs, _columns(ctx, found))
    dropped = [(c.metric, c.domain) for c in ctx.params.constraints if c.max_drop is not None]
    for artifact in ctx.inputs("baseline_metrics"):
        return scores_of_ledger("baseline", read_ledger(artifact.path), prompts, dropped)
    return None
