"""Declaration of the evaluate stage."""

from __future__ import annotations

import re

from components.contract.artifacts import ArtifactType
from components.contract.component import Component, Port
from components.contract.display import Column, Form, Profiles, Results, Role, Views
from components.contract.errors import InputError
from components.contract.further import JUDGES, PARTNERS, REFERENCE, SCORERS, further_ports
from components.contract.heads import LANGUAGE, Head
from components.evaluate.params import EvaluateParams
from components.measure.alarms import verifier_raises
from components.measure.chosen_params import asked_heads, asked_inputs, chosen_metrics
from components.modeling.estimates.further_memory import further_needs
from components.modeling.estimates.sampling_memory import sampling_memory
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.preloads import MODEL_PRELOADS


def asks(params: EvaluateParams) -> dict[str, list[str]]:
    """Return the inputs that the chosen operators need or read; scorers are always of use."""
    return {SCORERS: [], **asked_inputs(params)}


def heads(params: EvaluateParams) -> dict[str, frozenset[Head]]:
    """Return what further models must give; scorers that no operator names say how likely responses are."""
    return {SCORERS: LANGUAGE, **asked_heads(params)}


PAIRS = "pairs"
AT_K = re.compile(r"(pass|maj)_at_(\d+)_(.+)")


def unmeasured(params: EvaluateParams, metric: str) -> str | None:
    """Return why pass@k or maj@k of a domain is not among the metrics: k is above the samples, or not asked for."""
    found = AT_K.fullmatch(metric)
    if found is None:
        return None
    kind, k, domain = found[1], int(found[2]), found[3]
    try:
        ks = params.wanted_ks(domain)
    except InputError:  # a domain that num_samples does not name
        return None
    if k > max(ks):
        return f"{k} is more than the samples of a prompt, num_samples: {max(ks)}"
    if kind == "maj" and k != max(ks):
        return f"the majority is that of all {max(ks)} samples"
    return None if k in ks else f"ks are {', '.join(map(str, ks))}"


COMPONENT = Component(
    name="evaluate",
    summary="Sample, verify and measure a model on held-out prompts, with intervals and paired tests",
    inputs={
        "model": Port(type=ArtifactType.MODEL, doc="The model to measure"),
        "dataset": Port(type=ArtifactType.DATASET, doc="Held-out prompts; rows name their domain", many=True),
        "baseline": Port(
            type=ArtifactType.METRICS, doc="An evaluation of another model on the same prompts", optional=True
        ),
        PAIRS: Port(
            type=ArtifactType.DATASET,
            doc="Preferences: pairs of responses of which the better one is known, for a diagnostic of judges",
            optional=True,
            many=True,
        ),
        **further_ports(SCORERS, REFERENCE, JUDGES, PARTNERS),
    },
    outputs={
        "metrics": Port(
            type=ArtifactType.METRICS,
            doc="Metrics with intervals, pass@k curves, calibration, pass-rate ledger, samples, comparison",
        ),
    },
    params=EvaluateParams,
    run="components.evaluate.run:run",
    backends=frozenset({"sampler"}),
    model_sizes=ModelSizes.from_config,
    memory=sampling_memory,
    asks=asks,
    heads=heads,
    metrics_of=chosen_metrics,
    unmeasured=unmeasured,
    further_memory=further_needs,
    preloads=MODEL_PRELOADS,
    metrics={
        "pass_at_1": "Chance that one sample is right; mean over domains",
        "pass_at_1_<domain>": "The same on one domain",
        "pass_at_<k>_<domain>": "Chance that one of k samples is right: k = 1, 2, 4, 8 ..., and all n samples",
        "maj_at_<n>_<domain>": "Chance that the majority of all n samples is right",
        "delta_pass_at_1_<domain>": "pass@1 minus the baseline's on the same prompts",
        "entropy": "Mean token entropy of responses in nats; mean over domains, and _<domain>",
        "mean_tokens": "Mean response length in tokens; mean over domains, and _<domain>",
        "mean_tokens_right_<domain>": "Mean length of a prompt's right responses",
        "mean_tokens_wrong_<domain>": "Mean length of a prompt's wrong responses",
        "finished_share_<domain>": "Share of responses that ended by themselves",
        "answer_entropy_<domain>": "Entropy in nats of a prompt's answers among its samples",
        "unique_answers_<domain>": "Distinct answers as a share of a prompt's samples",
        "right_answers_<domain>": "Distinct right answers among a prompt's samples",
        "right_responses_<domain>": "Distinct right responses among a prompt's samples",
        "entropy_first_<domain>": "Entropy in nats at a response's first token; of an exact evaluation",
        "entropy_answer_<domain>": "Mean entropy in nats at the tokens of right answers; of an exact evaluation",
        "unique_responses_<domain>": "Distinct responses as a share of a prompt's samples",
        "distinct_2_<domain>": "Distinct pairs of words as a share of all pairs in a prompt's samples",
        "likelihood_<n>_<domain>": "Mean log-probability in nats of a byte of responses under the n-th scorer",
        "likelihood_<n>_unscored": "Responses that the n-th scorer could not score",
        "num_prompts_<domain>": "Prompts of one domain",
        "num_failed": "Verifications that failed; they are in no denominator",
        "num_overlong": "Prompts left out because they do not fit the model with a response; only where there are any",
        "num_cut": "Prompts cut on the left for the same reason; only where there are any",
        "num_raised": "Responses that count as wrong because a user's verifier raised on them, if there are any",
    },
    undone={"num_failed": "verifications failed"},
    alarms=(verifier_raises(rows=1),),
    role=Role.MEASURING,
    results=Results(
        title="Skills after each stage",
        metric="pass_at_1_<domain>",
        name="pass@1",
        about="held-out pass@1",
        columns=(
            Column(value="entropy", title="entropy, nats", form=Form.NUMBER, digits=3),
            Column(value="mean_tokens", title="tokens a response", form=Form.NUMBER, digits=1),
            Column(value="num_failed", title="failed checks", form=Form.NUMBER, digits=0),
        ),
        recovery="Forgetting and recovery",
    ),
    report=(
        Profiles(
            title="pass@k",
            lead="Unbiased pass@k with 95 % bootstrap intervals over prompts.",
            file="pass_at_k.json",
            x_label="k",
            y_label="pass@k, %",
            x_log2=True,
        ),
        Views(title="Diagnostics", file="views.json"),
    ),
    verifies=lambda _: ("dataset",),
)
