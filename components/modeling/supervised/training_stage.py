"""The parts that all stages of supervised training share around the trainer: resume, kept models, outputs, metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from components.contract.artifacts import HISTORY_FILE, write_json_lines, write_metrics_file
from components.contract.context import StageContext
from components.modeling.models.policy import Policy
from components.modeling.supervised.examples import Example
from components.modeling.supervised.loss import Objective, domain_losses, evaluate_loss, likelihood
from components.modeling.supervised.model_shelf import ModelShelf
from components.modeling.supervised.trainer import FitSummary, fit
from components.modeling.training.training_config import SupervisedConfig

NOTHING: Mapping[str, float] = MappingProxyType({})
TAIL_STEPS = 10
"""The headline loss is the mean over this many last rows of the history, as a single batch is noisy."""


def train_and_save(
    ctx: StageContext[Any],
    policy: Policy,
    examples: Sequence[Example],
    config: SupervisedConfig,
    *,
    validation: Sequence[Example] = (),
    write_extra: Callable[[Path], None] | None = None,
    objective: Objective = likelihood,
    fitted: Callable[..., FitSummary] = fit,
    left_out: Mapping[str, float] = NOTHING,
) -> FitSummary:
    """Train `policy`, resuming from a partial checkpoint if there is one; write outputs `model` and `metrics`.

    `left_out` are counts of what the stage has left out already; `num_overlong` adds to that of the training.
    `objective` is the loss of a target; `fitted` trains, in the place of `fit` with its arguments. With
    `config.save_every` also `checkpoints`. The headline is the loss (mean of the last 10 rows of the history), counts,
    and the loss on `validation` if given.
    """
    shelf = ModelShelf(ctx.output("checkpoints")) if config.save_every else None
    summary = fitted(
        policy,
        examples,
        config,
        ctx,
        seed=ctx.seed,
        resume=ctx.resume(),
        part=ctx.part,
        shelf=shelf,
        write_extra=write_extra,
        backends=ctx.job.resources,
        objective=objective,
    )
    summary.trainer.save(ctx.output("model"))
    ctx.describe("model", steps=summary.steps, num_targets=summary.num_targets)
    if shelf is not None:
        ctx.describe("checkpoints", steps=shelf.steps)
    history = ctx.history()
    tail = [row["loss"] for row in history if "loss" in row][-TAIL_STEPS:]
    headline: dict[str, float] = {
        "loss": sum(tail) / len(tail),
        "num_examples": summary.num_examples,
        "num_overlong": summary.num_overlong + left_out.get("num_overlong", 0),
        "num_targets": summary.num_targets,
        "epochs": summary.epochs,
        "padding_avoided": summary.padding_avoided,
        **{name: count for name, count in left_out.items() if name != "num_overlong" and count},
    }
    if validation:
        held_out = summary.trainer.evaluate(
            lambda: evaluate_loss(policy, validation, max_tokens=config.micro_batch_tokens)
        )
        headline["validation_loss"] = held_out.loss
        headline.update(domain_losses(held_out, "validation_loss"))
    ctx.headline(**headline)
    write_metrics_file(ctx.output("metrics"), headline)
    write_json_lines(ctx.output("metrics") / HISTORY_FILE, history)
    return summary
