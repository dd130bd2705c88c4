"""The replay stage: measure what was forgotten, assemble the rehearsal set, train on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.measure.intervals import Bootstrap, Interval
from components.measure.ledger import read_ledger
from components.measure.metrics import add_metrics, metric_key, write_json
from components.modeling.generation.choose import open_sampler
from components.modeling.loading.load import load_to_train
from components.modeling.models.policy import Policy
from components.modeling.ranks import current_ranks
from components.modeling.supervised.examples import examples_from_rows
from components.modeling.supervised.training_stage import train_and_save
from components.replay.forgetting import measure_forgetting
from components.replay.pools import read_pools
from components.replay.rehearsal import Assembler
from components.tasks.rows import read_rows, write_rows

if TYPE_CHECKING:
    from components.replay.params import ReplayParams

CARD = "card.json"


def run(ctx: StageContext[ReplayParams]) -> None:
    """Train input `model` on a rehearsal set and write `model`, `dataset` and `metrics`."""
    params = ctx.params
    policy = load_to_train(ctx, lora=params.lora, dtype=params.dtype)
    policy.keep_special_tokens(params.keep_special_tokens)
    folder = ctx.output("dataset")
    if not (folder / CARD).is_file():  # a resumed stage has already written the set
        _write_rehearsal(ctx, policy, folder)
    # A verifier may time out on one rank and not on another, so all ranks train on the rows of the first.
    rows, card = current_ranks().first_says(lambda: (read_rows(folder), json.loads((folder / CARD).read_text("utf-8"))))
    shares = {domain: entry["share"] for domain, entry in card["rehearsal"].items() if entry["share"] > 0}
    trained = params.model_copy(update={"mixture": shares})
    examples = examples_from_rows(policy.tokenizer, rows, learn=params.learn, ends=policy.ends)
    train_and_save(ctx, policy, examples, trained)
    ctx.describe("dataset", kind="demonstrations", num_rows=len(rows))
    metrics = _metrics(card)
    add_metrics(ctx.output("metrics"), metrics)
    ctx.headline(**{name: v.value if isinstance(v, Interval) else v for name, v in metrics.items()})


def _write_rehearsal(ctx: StageContext[ReplayParams], policy: Policy, folder: Path) -> None:
    pools = read_pools(ctx.inputs("datasets"), ctx.inputs("rollouts"))
    drops = _forgetting(ctx)
    with open_sampler(policy, ctx.job.resources) as sampler:
        rehearsal = Assembler(pools, drops, ctx.params, sampler, seed=ctx.seed, progress=ctx.progress).assemble()
    inputs = {port: [a.digest for a in ctx.inputs(port)] for port in ("datasets", "rollouts", "before", "after")}
    write_rows(folder, rehearsal.rows)
    write_json(folder / CARD, {**rehearsal.card, "inputs": inputs})


def _forgetting(ctx: StageContext[ReplayParams]) -> dict[str, Interval]:
    """Return the drop of every domain that both evaluations measured; empty if they are not connected."""
    before, after = ([read_ledger(artifact.path) for artifact in ctx.inputs(port)] for port in ("before", "after"))
    if len(before) != len(after):
        raise InputError("forgetting is measured between two evaluations: connect 'before' and 'after', or neither")
    bootstrap = Bootstrap(ctx.params.bootstrap_samples, ctx.params.confidence, ctx.seed)
    drops = [measure_forgetting(b, a, bootstrap) for b, a in zip(before, after, strict=True)]
    if drops and not drops[0]:
        raise InputError("the evaluations 'before' and 'after' share no prompt; evaluate both on the same dataset")
    return drops[0] if drops else {}


def _metrics(card: dict[str, Any]) -> dict[str, Interval | float]:
    entries = card["rehearsal"]
    metrics: dict[str, Interval | float] = {
        "num_rehearsed": float(card["num_rows"]),
        "num_rejected": float(sum(entry["num_rejected"] for entry in entries.values())),
        "num_failed": float(sum(entry["num_failed"] for entry in entries.values())),
        "num_unrehearsed": float(len(card["unrehearsed"])),
    }
    for domain, entry in entries.items():
        metrics[metric_key("share", domain)] = entry["share"]
        if entry["drop"]:
            metrics[metric_key("drop", domain)] = Interval(**entry["drop"])
    return metrics
