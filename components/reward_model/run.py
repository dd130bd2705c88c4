"""The reward_model stage: read judged rows, fit scores to them, measure what was held out, save a classifier."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from components.contract.context import StageContext
from components.contract.errors import InputError
from components.measure.harness.views import write_views
from components.measure.intervals import Bootstrap, Interval
from components.measure.metrics import add_metrics, check_domains
from components.modeling.loading.load import load_to_train
from components.modeling.models.folder import read_config
from components.modeling.scorers.folder import classifier
from components.modeling.scorers.network import RewardNetwork
from components.modeling.supervised.training_stage import train_and_save
from components.modeling.text.overlong import Limit
from components.modeling.training.trainer import Trainer
from components.reward_model.config import ScorerLossConfig
from components.reward_model.measures import measure
from components.reward_model.rows import Unit, differing, fitting_units, read_units, split_tasks, weighing
from components.reward_model.showing import view_of
from components.reward_model.training import Fitting, fit_scorer, rewards_of

if TYPE_CHECKING:
    from components.reward_model.params import RewardModelParams


def run(ctx: StageContext[RewardModelParams]) -> None:
    """Train input `model` with a new head on the rows of input `dataset`; write a classifier's folder.

    Measured on input `validation`, or on rows of tasks that are held out.
    """
    params, loss = ctx.params, ctx.params.scorer_loss.resolve()
    config = loss.config
    assert isinstance(config, ScorerLossConfig)
    if ctx.job.resources.tensor_parallel > 1:
        raise InputError("reward_model: a head for scores is not divided within a layer: leave tensor_parallel out")
    layout = config.layout()
    classifier(read_config(ctx.input("model").path), layout.head)  # said now, and not when hours are done
    policy = load_to_train(ctx, lora=params.lora, dtype=params.dtype)
    if policy.tokenizer is None:
        raise InputError("the model has no tokenizer; put its tokenizer.json beside its weights")
    network = RewardNetwork(policy, layout, seed=ctx.seed)
    units, held, where, num_equal = _rows(ctx, network, config)
    weighed = weighing(units)
    if not weighed:
        raise InputError("reward_model: no row has a weight above 0: there is nothing to train on")
    limit = Limit.of_example(params.max_tokens, policy.max_positions)
    short, counts = fitting_units(weighed, limit, params.overlong, ctx, "rows")
    fitting = Fitting(network, short, loss)
    counts |= {"num_equal": float(num_equal)} if num_equal else {}
    fitted = partial(fit_scorer, fitting=fitting)
    summary = train_and_save(ctx, policy, [], params, fitted=fitted, left_out=counts)
    ctx.describe("model", head=layout.head.value, scorer_loss=loss.name, outputs=layout.outputs)
    if weightless := len(units) - len(weighed):
        _tell(ctx, {"num_weightless": float(weightless)})
    if held:
        measured = _measurable(ctx, held, limit)
        _tell(ctx, {"num_overlong_validation": float(len(held) - len(measured))})
        if measured:
            _measure(ctx, summary.trainer, fitting, measured, where)


def _measurable(ctx: StageContext[RewardModelParams], held: Sequence[Unit], limit: Limit) -> list[Unit]:
    """Return the held-out rows that fit, cut ones included; perhaps none."""
    if ctx.params.overlong != "refuse" and all(unit.longest > limit.tokens for unit in held):
        return []
    return fitting_units(held, limit, ctx.params.overlong, ctx, "held-out rows")[0]


def _rows(
    ctx: StageContext[RewardModelParams], network: RewardNetwork, config: ScorerLossConfig
) -> tuple[list[Unit], list[Unit], str, int]:
    """Return rows to train on, rows to measure, where the latter come from, and how many pairs have equal sides."""
    read = read_units(network.policy, [found.path for found in ctx.inputs("dataset")], config)
    units, num_equal = differing(read, ctx)
    given = ctx.inputs("validation")
    if given:
        held, _ = differing(read_units(network.policy, [found.path for found in given], config), ctx)
        kept = units
    else:
        kept, held = split_tasks(units, ctx.params.holdout, ctx.seed)
    if config.rows == "preferences":  # measured by domain
        check_domains(unit.domain for unit in held)
    return kept, held, "of the validation input" if given else "that were held out of the training", num_equal


def _measure(
    ctx: StageContext[RewardModelParams], trainer: Trainer, fitting: Fitting, held: Sequence[Unit], where: str
) -> None:
    """Measure the trained model on some rows, and write the measures."""
    most = ctx.params.micro_batch_tokens
    rewards = trainer.evaluate(lambda: rewards_of(fitting, held, max_tokens=most))
    config, summed = fitting.config, fitting.network.layout.over == "sum"
    found = measure(held, rewards, config.rows, Bootstrap(seed=ctx.seed), chances=config.chances, summed=summed)
    tasks = len({unit.task for unit in held})
    write_views(ctx.output("metrics"), {"scores": view_of(found, where, tasks)})
    known = {name: interval for name, interval in found.measures.items() if np.isfinite(interval.value)}
    flat = [value for values in rewards for value in values]
    spread = {"reward_mean": float(np.mean(flat)), "reward_std": float(np.std(flat))}
    _tell(ctx, {**known, **spread, "num_measured": float(len(held))})


def _tell(ctx: StageContext[RewardModelParams], metrics: dict[str, Interval | float]) -> None:
    """Add metrics to the output and to the headline."""
    add_metrics(ctx.output("metrics"), metrics)
    ctx.headline(**{name: one.value if isinstance(one, Interval) else one for name, one in metrics.items()})
