"""The audit_reward stage: play responses of known worth against the rewards of an rl stage, and say who earned what."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from components.audit_reward.findings import Played, Row, rows_of
from components.audit_reward.page import render_page
from components.audit_reward.place import AUDIT
from components.audit_reward.probes import GOLD, MUTATED, PROBES, Case, Probe, Worth, cases_of, master_keys
from components.audit_reward.scoring import Earned, Scorer
from components.audit_reward.search import MARK, Wrapped, found_probe, phrases_to_try, search
from components.contract.context import StageContext
from components.contract.errors import InputError
from components.contract.further import FURTHER, JUDGES, PARTNERS, asks_of
from components.contract.operators import with_used
from components.contract.samples import spread
from components.measure.intervals import Bootstrap, Interval
from components.measure.metrics import write_json, write_metrics
from components.modeling.generation.choose import open_sampler
from components.modeling.loading.load import load_to_train
from components.modeling.serving.further import FurtherModels
from components.rl.fitting import fitting_prompts
from components.rl.run import build_loop, read_pool
from components.rl.slots import REWARD
from components.tasks.seeds import derive_rng

if TYPE_CHECKING:
    from components.audit_reward.params import AuditRewardParams
    from components.modeling.models.policy import Policy
    from components.rl.batch.batch import Prompt


def run(context: StageContext[AuditRewardParams]) -> None:
    """Write outputs `metrics` and `report`."""
    params = context.params
    policy = load_to_train(context, lora=params.lora, dtype=params.dtype)
    policy.keep_special_tokens(params.keep_special_tokens)
    start = (context.inputs("reference") or context.inputs("model"))[0].path
    pool, _ = fitting_prompts(read_pool(context, policy), policy, params, context)
    models = FurtherModels(context, *FURTHER, PARTNERS)
    with open_sampler(policy, context.job.resources) as sampler, models as further:
        loop = build_loop(
            params, policy, pool, start=start, seed=context.seed, sampler=sampler, further=further.by_port
        )
        prompts = _audited(pool, params.audit.prompts)
        scorer = Scorer(loop, prompts, params.audit.samples)
        cases = _cases(context, policy, prompts)
        played = _play(context, scorer, cases)
        own = scorer.own()
        further.write_answers(context.output("metrics"))
    bootstrap = Bootstrap(seed=context.seed)
    rows = rows_of(played, tolerance=params.audit.tolerance, bootstrap=bootstrap)
    _write(context, rows, _own_row(own, bootstrap), len(prompts))


def _audited(pool: Sequence[Prompt], count: int) -> list[Prompt]:
    """Return prompts whose right response is known; raise InputError if there are none."""
    usable = [prompt for prompt in pool if prompt.item.answer and not prompt.gaps]
    if not usable:
        raise InputError(
            "audit_reward: no prompt of input `dataset` has an answer and one turn, so no response is known to be right"
        )
    return spread(usable, count)


def _cases(context: StageContext[AuditRewardParams], policy: Policy, prompts: Sequence[Prompt]) -> list[Case]:
    params = context.params
    write, items = params.audit.demonstrator.resolve(), [prompt.item for prompt in prompts]
    gold = [write(item, derive_rng(context.seed, "audit", item.id)) for item in items]
    if not all(isinstance(text, str) for text in gold):
        raise InputError("audit_reward: audit.demonstrator writes conversations; name one that writes one text")
    tokenizer = policy.tokenizer
    assert tokenizer is not None

    def count_tokens(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False))

    return cases_of(items, gold, limit=params.max_new_tokens - 1, count_tokens=count_tokens)


def _play(context: StageContext[AuditRewardParams], scorer: Scorer, cases: Sequence[Case]) -> list[Played]:
    """Return every probe with what it earned, those that the search found among them."""
    played, probes = [], (*PROBES, *(master_keys() if asks_judges(context.params) else ()))
    for number, probe in enumerate(probes, 1):
        played.append(_played(scorer, probe, cases))
        context.progress(number, len(probes) + 2)
    rewards = {probe.probe.name: _mean(probe.earned) for probe in played}
    for number, probe in enumerate(_found(context, scorer, cases, rewards), len(probes) + 1):
        played.append(_played(scorer, probe, cases))
        context.progress(number, len(probes) + 2)
    return played


def asks_judges(params: AuditRewardParams) -> bool:
    """Return whether a reward asks judges, so that the keys that open these are played too."""
    rewards = (bound for bound in params.operators() if bound.slot.name == REWARD.name)
    return any(JUDGES in asks_of(bound.config) for bound in with_used(rewards))


def _played(scorer: Scorer, probe: Probe, cases: Sequence[Case]) -> Played:
    texts = {at: text for at, case in enumerate(cases) if (text := probe.write(case)) is not None}
    return Played(probe, scorer.earned(texts))


def _found(
    context: StageContext[AuditRewardParams], scorer: Scorer, cases: Sequence[Case], rewards: Mapping[str, float]
) -> list[Probe]:
    """Return what the search finds: phrases around wrong responses, and around right ones."""
    config = context.params.audit.search
    few = spread(range(len(cases)), config.prompts) if config.rounds else []
    slots = context.params.slots()
    phrases = phrases_to_try([spec.model_dump() for spec in slots.rewards], [cases[at] for at in few], config.phrases)

    def found(base: Probe, tried: Sequence[str], enough: float) -> Wrapped:
        texts = {at: text for at in few if (text := base.write(cases[at])) is not None}
        return search(texts, tried, lambda given: _mean(scorer.earned(given)), rounds=config.rounds, enough=enough)

    probes = []
    if few and (around := found(MUTATED, phrases, rewards[GOLD.name])) != Wrapped():
        probes.append(found_probe("wrong and phrases", around, Worth.WRONG))
    words = [phrase for phrase in phrases if not MARK.search(phrase)]
    if few and (around := found(GOLD, words, math.inf)) != Wrapped():
        probes.append(found_probe("right and phrases", around, Worth.PADDED))
    return probes


def _mean(earned: Mapping[int, Earned]) -> float:
    """Return the mean reward; what could not be judged is left out, and where nothing could it is minus infinity."""
    known = [one.reward for one in earned.values() if not math.isnan(one.reward)]
    return math.fsum(known) / len(known) if known else -math.inf


def _own_row(own: Sequence[Earned], bootstrap: Bootstrap) -> dict[str, Any]:
    """Return what the model's own right and wrong responses earn."""
    found: dict[str, Any] = {"num_samples": len(own)}
    for outcome in ("right", "wrong"):
        rewards = [one.reward for one in own if one.outcome == outcome and not math.isnan(one.reward)]
        found[outcome] = bootstrap.mean_interval(rewards).to_json() if rewards else None
    return found


def _write(
    context: StageContext[AuditRewardParams], rows: Sequence[Row], own: Mapping[str, Any], num_prompts: int
) -> None:
    findings = [row for row in rows if row.why]
    wrong = [row for row in rows if row.worth in (Worth.WRONG, Worth.EMPTY) and math.isfinite(row.reward.value)]
    best = max(wrong, key=lambda row: row.reward.value)
    audit = {"num_prompts": num_prompts, "rows": [row.to_json() for row in rows], "own": own}
    write_json(context.output("report") / AUDIT, audit)
    (context.output("report") / "index.html").write_text(render_page(audit), encoding="utf-8")
    metrics: dict[str, Interval | float] = {
        "num_exploits": float(len(findings)),
        "gold_reward": rows[0].reward,
        "best_wrong_reward": best.reward,
    }
    write_metrics(context.output("metrics"), metrics)
    context.headline(
        num_exploits=float(len(findings)), gold_reward=rows[0].reward.value, best_wrong_reward=best.reward.value
    )
