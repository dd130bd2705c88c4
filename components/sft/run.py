"""The sft stage: read demonstrations, train on their responses, save."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from components.contract.context import StageContext
from components.measure.metrics import add_metrics
from components.modeling.loading.load import load_to_train
from components.modeling.models.policy import Policy
from components.modeling.supervised.examples import Example, examples_from_rows
from components.modeling.supervised.training_stage import train_and_save
from components.tasks.rows import read_rows
from components.tasks.weights import row_weights

if TYPE_CHECKING:
    from components.sft.params import SftParams


def run(ctx: StageContext[SftParams]) -> None:
    """Fine-tune input `model` on input `dataset`; the loss covers responses and turns of the assistant only.

    A row's `weight` is that of each of its targets; rows of weight 0 are not drawn.
    """
    params = ctx.params
    policy = load_to_train(ctx, lora=params.lora, dtype=params.dtype)
    examples = _examples(ctx, policy, "dataset")
    weighing = [example for example in examples if example.weight]
    train_and_save(
        ctx,
        policy,
        weighing,
        params,
        validation=_examples(ctx, policy, "validation"),
    )
    if weightless := len(examples) - len(weighing):
        ctx.headline(num_weightless=float(weightless))
        add_metrics(ctx.output("metrics"), {"num_weightless": float(weightless)})


def _examples(ctx: StageContext[SftParams], policy: Policy, port: str) -> list[Example]:
    rows = [row for artifact in ctx.inputs(port) for row in read_rows(artifact.path)]
    examples = examples_from_rows(policy.tokenizer, rows, learn=ctx.params.learn, ends=policy.ends)
    weights = row_weights(rows)
    return [replace(example, weight=weight) for example, weight in zip(examples, weights, strict=True)]
