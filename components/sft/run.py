"""The sft stage: read demonstrations, train on their responses, save."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from components.contract.context import StageContext
from components.measure.metrics import add_metrics
from components.modeling.loading.load import load_to_train
from components.modeling.models.policy import Policy
from components.modeling.supervised.examples import Example, examples_from_rows
from components.modeling.supervised.loss import likelihood
from components.modeling.supervised.trainer import fit
from components.modeling.supervised.training_stage import train_and_save
from components.modeling.text.overlong import Limit
from components.sft.reading import fitting_examples, read_demonstrations
from components.sft.teaching import Rows, open_distillation, with_teacher_prompts
from components.sft.transfer import fit_transfer
from components.tasks.weights import row_weights

if TYPE_CHECKING:
    from components.sft.params import SftParams


def run(ctx: StageContext[SftParams]) -> None:
    """Fine-tune input `model` on input `dataset`; the loss covers responses and turns of the assistant only.

    A row's `weight` is that of each of its targets; rows of weight 0 are not drawn.
    """
    params = ctx.params
    policy = load_to_train(ctx, lora=params.lora, dtype=params.dtype)
    read = read_demonstrations(ctx, policy, "dataset")
    examples = _examples(ctx, policy, read.rows)
    distillation = open_distillation(ctx, policy) if params.distillation else None
    if distillation:
        examples = with_teacher_prompts(examples, read.rows, distillation, params)
    weighing = [at for at, example in enumerate(examples) if example.weight]
    names = [read.names[at] for at in weighing]
    limit = Limit.of_example(params.max_tokens, policy.max_positions)
    fitting, overlong = fitting_examples(ctx, [examples[at] for at in weighing], names, limit, "examples")
    validation, more = _validation(ctx, policy)
    train_and_save(
        ctx,
        policy,
        fitting,
        params,
        validation=validation,
        objective=distillation or likelihood,
        fitted=partial(fit_transfer, transfer=params.transfer) if params.transfer else fit,
        left_out={**read.metrics(), **overlong, **more},
    )
    if weightless := len(examples) - len(weighing):
        ctx.headline(num_weightless=float(weightless))
        add_metrics(ctx.output("metrics"), {"num_weightless": float(weightless)})


def _validation(ctx: StageContext[SftParams], policy: Policy) -> tuple[list[Example], dict[str, float]]:
    """Return the examples to measure, of which the model's positions alone limit the length, and what is left out."""
    read = read_demonstrations(ctx, policy, "validation")
    limit = Limit(policy.max_positions, f"the model's {policy.max_positions} positions")
    examples = _examples(ctx, policy, read.rows)
    fitting, overlong = fitting_examples(ctx, examples, read.names, limit, "validation examples")
    return fitting, {f"{name}_validation": count for name, count in {**read.metrics(), **overlong}.items()}


def _examples(ctx: StageContext[SftParams], policy: Policy, rows: Rows) -> list[Example]:
    examples = examples_from_rows(policy.tokenizer, rows, learn=ctx.params.learn, ends=policy.ends)
    weights = row_weights(rows)
    return [replace(example, weight=weight) for example, weight in zip(examples, weights, strict=True)]
