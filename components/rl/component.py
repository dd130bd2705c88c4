"""Declaration of the rl stage."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from components.contract.artifacts import ArtifactType
from components.contract.backends import Backends
from components.contract.component import Component, Given, Port
from components.contract.display import Audit, Curves, Role
from components.contract.further import FURTHER, PARTNERS, asked_heads, asked_ports, further_ports
from components.contract.heads import Head
from components.contract.operators import Bound, with_used
from components.modeling.models.model_sizes import ModelSizes
from components.modeling.models.preloads import MODEL_PRELOADS
from components.rl import compared, sampler_needs
from components.rl.alarms import RL_ALARMS
from components.rl.labels import OUTCOMES, labels_read
from components.rl.memory import rl_memory
from components.rl.on_pool import on_pool
from components.rl.params import RLParams
from components.rl.presets import preset_names
from components.rl.teacher_memory import rl_further_needs
from components.tasks.grades import WITHOUT_GRADES
from components.tasks.item import UNLABELLED

OPTIMIZER = "optimizer"


def sources(params: RLParams) -> Iterator[Bound]:
    """Yield the operators of all phases: the method's, with the overrides applied."""
    return params.operators()


def asks(params: RLParams) -> dict[str, list[str]]:
    """Return the ports of further models that operators query, and these operators."""
    return asked_ports(sources(params))


def heads(params: RLParams) -> dict[str, frozenset[Head]]:
    """Return the ports of further models that operators query, and what these models must give."""
    return asked_heads(sources(params))


def advice(params: RLParams, makers: Mapping[str, Sequence[Role]]) -> Iterator[str]:
    """Yield remarks on the choice of slots; see components/rl/guidelines.py."""
    from components.rl.guidelines import guidelines

    yield from guidelines(params, makers)


def refuses_rows(params: RLParams, verifiers: Mapping[str, Collection[str]]) -> Iterator[str]:
    """Yield a line where an operator reads outcomes, or reward `score` grades, of rows whose verifiers give none."""
    names = verifiers.get("dataset", ())
    if set(names) == {UNLABELLED}:
        reader = next((bound for bound in with_used(sources(params)) if OUTCOMES in labels_read(bound)), None)
        if reader is not None:
            yield (
                f"{reader.slot} operator {reader.shown!r} reads outcomes, and the rows are unlabelled; use rewards "
                "that need none, or rows with verifiers"
            )
        return
    graded = any(bound.slot.name == "reward" and bound.name == "score" for bound in with_used(sources(params)))
    if graded and names and WITHOUT_GRADES.issuperset(names):
        yield (
            f"reward 'score' reads grades between right and wrong, and verifier {' and '.join(sorted(names))} of the "
            "rows gives none; take reward 'verifier', or rows whose verifier grades"
        )


def refuses_backends(params: RLParams, backends: Backends) -> Iterator[str]:
    """Yield a line for operators that the sampler cannot serve, and for passes that are not divided over ranks."""
    yield from sampler_needs.refuses_backends(params, backends)
    yield from compared.refuses_backends(params.operators(), backends)
    if params.keep_optimizer and _divides(backends):
        yield "keep_optimizer: this trainer divides the averages over ranks; set `backend: {trainer: torch}`"


def refuses_inputs(params: RLParams, connected: Collection[str], backends: Backends) -> Iterator[str]:
    """Yield a line where the averages at input `optimizer`, whole ones of all weights, cannot be gone on with."""
    if OPTIMIZER not in connected:
        return
    if params.lora is not None:
        yield f"input {OPTIMIZER!r} holds averages of all weights, and `lora` trains others; leave one of them out"
    if _divides(backends):
        yield f"input {OPTIMIZER!r}: this trainer divides the averages over ranks; set `backend: {{trainer: torch}}`"


def _divides(backends: Backends) -> bool:
    return backends.trainer == "fsdp" or (backends.trainer == "deepspeed" and bool(backends.zero_stage))


def outputs(params: RLParams) -> Collection[str]:
    """Return the outputs that a stage with these parameters has."""
    return {"model", "checkpoints", "rollouts", "metrics"} | ({OPTIMIZER} if params.keep_optimizer else set())


def refuses_models(params: RLParams, given: Mapping[str, Sequence[Given | None]]) -> Iterator[str]:
    """Yield a line for each model that an operator cannot use: to compare the policy with, or as a partner by place."""
    yield from compared.refuses_models(params.operators(), given)
    if given.get(PARTNERS):
        configs = [bound.config for bound in sources(params) if hasattr(bound.config, "misfits")]
        yield from dict.fromkeys(why for one in configs for why in one.misfits(len(given[PARTNERS])))


COMPONENT = Component(
    name="rl",
    summary="Reinforcement learning with verifiable rewards: sample, verify, learn, repeat",
    inputs={
        "model": Port(type=ArtifactType.MODEL, doc="The policy to train"),
        "dataset": Port(type=ArtifactType.DATASET, doc="Prompts with their verifiers", many=True),
        "heldout": Port(
            type=ArtifactType.DATASET,
            doc="Prompts that are not trained on, whose pass rate is measured while training",
            many=True,
            optional=True,
        ),
        "reference": Port(
            type=ArtifactType.MODEL, doc="Frozen policy to stay close to; the input model by default", optional=True
        ),
        "ledger": Port(
            type=ArtifactType.METRICS,
            doc="Metrics of an rl or evaluate stage whose pass-rate ledger is carried over",
            optional=True,
        ),
        OPTIMIZER: Port(
            type=ArtifactType.OPTIMIZER,
            doc="The optimiser's averages of the stage that made the input model, to go on with",
            optional=True,
        ),
        **further_ports(*FURTHER, PARTNERS),
    },
    outputs={
        "model": Port(type=ArtifactType.MODEL, doc="The policy after the last step"),
        "checkpoints": Port(type=ArtifactType.CHECKPOINTS, doc="The policy every `save_every` steps", optional=True),
        OPTIMIZER: Port(type=ArtifactType.OPTIMIZER, doc="The optimiser's averages (keep_optimizer)", optional=True),
        "rollouts": Port(type=ArtifactType.ROLLOUTS, doc="Recorded responses with rewards and outcomes"),
        "metrics": Port(type=ArtifactType.METRICS, doc="Training curves and the pass-rate ledger"),
    },
    outputs_of=outputs,
    params=RLParams,
    run="components.rl.run:run",
    forks="components.rl.forking:misfits",
    rolls_back=True,
    backends=frozenset({"sampler", "trainer"}),
    model_sizes=ModelSizes.from_config,
    memory=rl_memory,
    further_memory=rl_further_needs,
    preloads=(*MODEL_PRELOADS, "components.rl.run"),
    metrics={
        "pass_rate": "share of right responses among verified ones, mean of the last 10 steps",
        "reward_mean": "mean reward, mean of the last 10 steps",
        "entropy": "token entropy of the policy in nats, mean of the last 10 steps",
        "length_mean": "tokens per response, mean of the last 10 steps",
        "signal_share": "share of groups with both outcomes, mean of the last 10 steps",
        "truncated_share": "share of responses cut at the token limit, mean of the last 10 steps",
        "heldout_pass_rate": "share of right responses to held-out prompts, the last measurement; with input `heldout`",
        "num_samples": "responses drawn in all, without those to held-out prompts",
        "num_tokens": "tokens drawn in all, probes and completions included, without those to held-out prompts",
        "num_failed": "failed verifications in all: these responses have no reward",
        "num_overlong": "prompts left out because they do not fit the model with a response; only where there are any",
        "num_cut": "prompts cut on the left for the same reason; only where there are any",
        "num_timeouts": "verifications in all, of distinct texts, in which the verifier ran out of time",
        "dropped_groups": "groups in all that had no gradient: filtered, unverified, or of advantages 0",
        "skipped_updates": "updates in all that were left out, for want of a gradient",
        "lost_prompts": "prompts that were drawn and neither learned from, dropped for a reason, nor pending: 0",
    },
    undone={
        "lost_prompts": "prompts lost",
        "skipped_updates": "updates skipped",
        "num_failed": "verifications failed",
        "num_timeouts": "verifications timed out",
    },
    choices={"method": preset_names},
    role=Role.TRAINING,
    alarms=RL_ALARMS,
    report=(
        Curves(
            title="Training",
            columns={
                "reward_mean": "reward",
                "pass_rate": "pass rate",
                "heldout_pass_rate": "pass rate on held-out prompts",
                "loss": "loss",
                "entropy": "entropy, nats",
                "start_kl_k3": "KL to the start, nats a token",
                "length_mean": "response length, tokens",
                "grad_norm": "gradient norm",
                "signal_share": "groups with signal",
                "clip_fraction": "clipped share",
                "truncated_share": "truncated responses",
                "sampler_gap_mean": "sampler's gap, nats a token",
                "learning_rate": "learning rate",
            },
        ),
        Audit(
            title="Reward audit",
            lead="What high rewards have in common beyond their verdict, and parts of the reward that move without the "
            "pass rate: signs of a reward that is gamed.",
            port="rollouts",
            file="rows.jsonl",
            proxy="reward_mean",
            prefix="reward_",
            not_parts=("reward_mean", "reward_std"),
            gold={"pass_rate": "pass rate", "heldout_pass_rate": "held-out pass rate"},
        ),
    ),
    sources=sources,
    verifies=lambda params: ("heldout",) if params.labels == "ignored" else ("dataset", "heldout"),
    refuses_rows=refuses_rows,
    refuses_backends=refuses_backends,
    refuses_models=refuses_models,
    refuses_inputs=refuses_inputs,
    on_pool=on_pool,
    audited_by="audit_reward",
    advice=advice,
    asks=asks,
    heads=heads,
)
