"""The rl stage: read prompts, run the loop, save."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from components.contract.artifacts import HISTORY_FILE, SAMPLES_FILE, write_json_lines, write_metrics_file
from components.contract.backends import Backends
from components.contract.context import Finish, Input, StageContext
from components.contract.errors import InputError, NotFiniteError, StoppedByAlarm
from components.contract.further import FURTHER, PARTNERS
from components.contract.terminal import short_line
from components.measure.alarms import JUDGED, RAISED, VERIFIER_RAISES
from components.modeling.generation.choose import open_sampler
from components.modeling.generation.sampler import Sampler
from components.modeling.loading.load import load_to_train
from components.modeling.models.policy import Policy
from components.modeling.ranks import current_ranks
from components.modeling.serving.further import FurtherModel, FurtherModels
from components.modeling.supervised.model_shelf import ModelShelf
from components.modeling.text.turns import scripts
from components.modeling.training.build import build_trainer
from components.modeling.training.kept_optimizer import load_averages, save_averages
from components.modeling.training.pacing import is_due
from components.modeling.training.training_state import TrainingState, load_training_state, save_training_state
from components.rl.batch.batch import Prompt
from components.rl.compared import check_compared
from components.rl.configs import CriticConfig
from components.rl.fitting import fitting_prompts
from components.rl.journal.after import state_after
from components.rl.journal.journal import Journal
from components.rl.labels import check_labelled
from components.rl.sampler_needs import constrains, processor_refusal
from components.rl.slots import Slots
from components.rl.step.accounts import DROPPED, LOST
from components.rl.step.audited import audit_step
from components.rl.step.critic import ValueModel
from components.rl.step.diagnostics import SKIPPED
from components.rl.step.heldout import heldout_probe
from components.rl.step.judging import TIMEOUTS
from components.rl.step.learner import Learner, Passes
from components.rl.step.ledger import TOTALS, VISITS, PassRates, read_pass_rates
from components.rl.step.loop import NO_MODELS, Loop
from components.rl.step.phases import PhasePlan, plan_phases
from components.rl.step.policies import Policies
from components.rl.step.record import RolloutRecord
from components.rl.step.samples import StepSamples
from components.rl.step.state import LOGS, LoopSettings, LoopState
from components.tasks.rows import read_items, write_rows

if TYPE_CHECKING:
    from components.rl.params import RLParams

TAIL_STEPS = 10
UNVERIFIED_STEPS = 5
"""A stage ends if no response of its first steps could be verified; as many as its alarm on failures waits for."""
TAIL_METRICS = ("pass_rate", "reward_mean", "entropy", "length_mean", "signal_share", "truncated_share")


def run(ctx: StageContext[RLParams]) -> None:
    """Train input `model` on the prompts of input `dataset` by the method of the parameters."""
    params = ctx.params
    policy = load_to_train(ctx, lora=params.lora, dtype=params.dtype)
    policy.keep_special_tokens(params.keep_special_tokens)
    start = (ctx.inputs("reference") or ctx.inputs("model"))[0].path
    (pool, left_out), ledger = fitting_prompts(read_pool(ctx, policy), policy, params, ctx), _ledger(ctx)
    structured = constrains(params)
    models = FurtherModels(ctx, *FURTHER, PARTNERS)
    with open_sampler(policy, ctx.job.resources, structured=structured) as sampler, models as further:
        check_compared(params.operators(), policy, further.by_port, ctx.job.resources)
        loop = build_loop(
            params,
            policy,
            pool,
            start=start,
            seed=ctx.seed,
            ledger=ledger,
            sampler=sampler,
            backends=ctx.job.resources,
            further=further.by_port,
        )
        shelf = ModelShelf(ctx.output("checkpoints")) if params.save_every else None
        held, _ = fitting_prompts(_prompts(ctx.inputs("heldout"), policy), policy, params, ctx)
        loop.heldout = heldout_probe(held, pool, params.heldout, seed=ctx.seed)
        loop.samples = samples = StepSamples(ctx.output("metrics") / SAMPLES_FILE, params.num_steps)
        loop.journal = Journal(ctx.output("rollouts"), params.num_steps, lambda: state_after(loop))
        for kept in ctx.inputs("optimizer"):
            load_averages(kept.path, loop.learner.trainer, params.optimizer.name)
        _resume(ctx, loop)
        try:
            _train(ctx, loop, shelf)
        except (StoppedByAlarm, NotFiniteError):
            samples.end()
            raise
        further.write_answers(ctx.output("metrics"))
        ctx.headline(**sampler.timings())
    _write_outputs(ctx, loop, shelf, left_out)


def _train(ctx: StageContext[RLParams], loop: Loop, shelf: ModelShelf | None) -> None:
    """Run the remaining steps."""
    params, policy = ctx.params, loop.policies.trained

    def write(folder: Path) -> Finish:
        state = TrainingState(loop.state.step, loop.state.to_json(), loop.tensors())
        for log, rows in loop.state.fresh_rows().items():
            ctx.append(log, rows)
        return save_training_state(
            folder,
            state,
            policy=policy,
            trainer=loop.learner.trainer,
            generators={"rollout": loop.generator},
            others=loop.further_trainers,
        )

    started, first = time.perf_counter(), loop.state.num_samples
    last = params.num_steps if ctx.ends_at is None else ctx.ends_at
    drawn, ended = sum(row["num_tokens"] for row in ctx.history()), loop.state.step >= last
    while not ended:
        metrics = loop.step()
        step = loop.state.step
        drawn += metrics["num_tokens"]
        ended = step == params.num_steps or _is_spent(params, loop, drawn)
        ctx.log(step, **metrics, **_raised(ctx, loop), **audit_step(ctx, loop.state))
        if step == UNVERIFIED_STEPS or (ended and step < UNVERIFIED_STEPS):
            _need_verified(ctx, loop)
        rate = (loop.state.num_samples - first) / (time.perf_counter() - started)
        ctx.progress(step, params.num_steps, samples_per_second=rate, **_headline([metrics]))
        if shelf is not None and (ended or step % params.save_every == 0):
            shelf.keep(step, loop.learner.trainer)
        when = params.checkpoint_every, params.checkpoint_minutes
        if not ended and is_due(ctx, loop.learner.trainer.ranks, step, *when):
            ctx.checkpoint(step, write)


def _is_spent(params: RLParams, loop: Loop, drawn: float) -> bool:
    """Return whether the token budget is used up, the same on all ranks."""
    budget = params.token_budget
    return budget is not None and loop.learner.trainer.ranks.first_says(lambda: drawn >= budget)


def _raised(ctx: StageContext[RLParams], loop: Loop) -> dict[str, float]:
    """Return how many of the step's distinct texts a user's verifier raised on, from the first such step on."""
    judge = loop.judge
    if judge is None or not (judge.num_raised or any(RAISED in row for row in ctx.history()[-1:])):
        return {}
    if judge.num_raised:
        ctx.explain(VERIFIER_RAISES, judge.first_raised)
    return {RAISED: float(judge.num_raised), JUDGED: float(judge.num_judged)}


def _need_verified(ctx: StageContext[RLParams], loop: Loop) -> None:
    """Raise InputError if no response of the steps so far could be verified: nothing can be learned."""
    rows = ctx.history()
    drawn, failed = (sum(row[name] for row in rows) for name in ("num_samples", "num_failed"))
    if failed < drawn or not drawn:
        return
    reason = short_line(loop.samples.failure if loop.samples is not None else "", 300)
    raise InputError(
        f"rl: none of the first {drawn:.0f} responses could be verified: {reason or 'no reason given'}; "
        "posttrain try runs a verifier on rows by itself"
    )


def build_loop(
    params: RLParams,
    policy: Policy,
    pool: Sequence[Prompt],
    *,
    start: Path,
    seed: int,
    ledger: PassRates | None = None,
    sampler: Sampler | None = None,
    backends: Backends | None = None,
    further: Mapping[str, Sequence[FurtherModel]] = NO_MODELS,
) -> Loop:
    """Return the loop at its first step; `start` is the model folder of the frozen starting policy.

    Raises InputError for operators that need what `sampler` lacks.
    """
    passes = Passes(params.minibatches, params.epochs, params.micro_batch_tokens)
    phases = plan_phases(params, pool, seed=seed)
    _check_sampler(phases, sampler)
    slots = phases[0].slots
    sharded = backends is not None and backends.trainer == "fsdp" and current_ranks().all.count > 1
    critic = _critic(slots, policy, params, backends)
    policies = Policies(policy, start, dtype=params.dtype, sharded=sharded)
    total_steps = params.num_steps * passes.updates
    trainer = build_trainer(policy, params.optimizer, total_steps=total_steps, backends=backends)
    return Loop(
        phases,
        LoopSettings(
            params.num_steps,
            start_kl_every=params.start_kl_every,
            browse_every=params.record.browse_every,
            sampler_correction=params.sampler_correction,
        ),
        pool=pool,
        policies=policies,
        learner=Learner(policy, trainer, slots, passes),
        critic=critic,
        generator=torch.Generator().manual_seed(seed),
        state=LoopState(
            record=RolloutRecord(
                browse_samples=params.record.browse_samples, right_samples=params.record.right_samples
            ),
            ledger=ledger or PassRates(),
        ),
        sampler=sampler,
        further=further,
    )


def _check_sampler(phases: Sequence[PhasePlan], sampler: Sampler | None) -> None:
    reason = processor_refusal(bound for phase in phases for _, bound in phase.slots.places())
    if reason and sampler is not None and not sampler.is_policy:
        raise InputError(f"rl: {reason}")


def _critic(slots: Slots, policy: Policy, params: RLParams, backends: Backends | None) -> ValueModel | None:
    config = slots.critic.config
    if not isinstance(config, CriticConfig):
        return None
    if backends is not None and backends.tensor_parallel > 1:
        raise InputError("rl: a value model is not divided within a layer: leave tensor_parallel out")
    return ValueModel(policy, config, micro_batch_tokens=params.micro_batch_tokens, backends=backends)


def _ledger(ctx: StageContext[RLParams]) -> PassRates:
    """Return the ledger that the stage continues; samples from now on are recorded under the input model's digest."""
    policy = ctx.input("model").digest.rpartition(":")[2][:12]
    given = ctx.inputs("ledger")
    return read_pass_rates(given[0].path, policy=policy) if given else PassRates(policy=policy)


def read_pool(ctx: StageContext[RLParams], policy: Policy) -> list[Prompt]:
    """Return the prompts of all datasets, each id once; raise InputError if there are none."""
    params = ctx.params
    found = _prompts(ctx.inputs("dataset"), policy, labelled=params.labels == "used")
    if not found:
        raise InputError("rl: the dataset holds no prompts; widen the filters of the stage that made it")
    check_labelled([prompt.item for prompt in found], params.operators())
    return found


def _prompts(datasets: Sequence[Input], policy: Policy, *, labelled: bool = True) -> list[Prompt]:
    read = (item for artifact in datasets for item in read_items(artifact.path))
    items = {item.id: item if labelled else item.unlabelled() for item in read}
    if policy.tokenizer is None:
        raise InputError("rl: the model has no tokenizer")
    tasks = scripts(policy.tokenizer, [item.task for item in items.values()], policy.ends)
    return [
        Prompt(item, tuple(script.opening), tuple(map(tuple, script.gaps)))
        for item, script in zip(items.values(), tasks, strict=True)
    ]


def _resume(ctx: StageContext[RLParams], loop: Loop) -> None:
    partial = ctx.resume()
    if partial is None:
        return
    saved = load_training_state(
        partial,
        policy=loop.policies.trained,
        trainer=loop.learner.trainer,
        generators={"rollout": loop.generator},
        others=loop.further_trainers,
        part=ctx.part,
    )
    loop.learner.trainer.roll_out(lambda: loop.load_tensors(saved.tensors))
    record = ctx.params.record
    loop.state = LoopState.from_json(
        saved.extra,
        {log: ctx.appended(log) for log in LOGS},
        given=loop.state.ledger,
        browse_samples=record.browse_samples,
        right_samples=record.right_samples,
    )


def _headline(rows: list[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each headline metric over the rows that have it."""
    values = {name: [row[name] for row in rows if name in row] for name in TAIL_METRICS}
    return {name: sum(found) / len(found) for name, found in values.items() if found}


def _newest(rows: list[dict[str, float]], name: str) -> dict[str, float]:
    """Return the last value of a metric that only some rows have; empty if none has."""
    return next(({name: row[name]} for row in reversed(rows) if name in row), {})


def _write_outputs(
    ctx: StageContext[RLParams], loop: Loop, shelf: ModelShelf | None, left_out: dict[str, float]
) -> None:
    state, history = loop.state, ctx.history()
    loop.learner.trainer.save(ctx.output("model"))
    if ctx.params.keep_optimizer:
        save_averages(ctx.output("optimizer"), loop.learner.trainer, ctx.params.optimizer.name)
    ctx.describe("model", num_parameters=loop.learner.trainer.num_parameters)
    if shelf is not None:
        ctx.describe("checkpoints", steps=shelf.steps)
    ctx.describe("rollouts", num_rows=write_rows(ctx.output("rollouts"), state.record.rows()))
    headline = (
        _headline(history[-TAIL_STEPS:])
        | _newest(history, "heldout_pass_rate")
        | {
            "num_samples": float(state.num_samples),
            "num_tokens": float(sum(row["num_tokens"] for row in history)),
            "num_failed": float(sum(visit.num_failed for visit in state.ledger.visits(since_step=0))),
            LOST: history[-1].get(LOST, 0.0) if history else 0.0,
        }
        | {name: float(sum(row.get(name, 0.0) for row in history)) for name in (SKIPPED, DROPPED, TIMEOUTS)}
        | left_out
    )
    ctx.headline(**headline)
    metrics = ctx.output("metrics")
    write_metrics_file(metrics, headline)
    write_json_lines(metrics / HISTORY_FILE, history)
    write_json_lines(metrics / TOTALS, state.ledger.rows())
    write_json_lines(metrics / VISITS, state.ledger.visit_rows())
