"""The sft stage: read demonstrations, train on their responses, save."""

from __future__ import annotations

from typing import TYPE_CHECKING

from components.contract.context import StageContext
from components.modeling.loading.load import load_to_train
from components.modeling.models.policy import Policy
from components.modeling.supervised.examples import Example, examples_from_rows
from components.modeling.supervised.training_stage import train_and_save
from components.tasks.rows import read_rows

if TYPE_CHECKING:
    from components.sft.params import SftParams


def run(ctx: StageContext[SftParams]) -> None:
    """Fine-tune input `model` on input `dataset`; the loss covers responses and turns of the assistant only."""
    params = ctx.params
    policy = load_to_train(ctx, lora=params.lora, dtype=params.dtype)
    train_and_save(
        ctx,
        policy,
        _examples(ctx, policy, "dataset"),
        params,
        validation=_examples(ctx, policy, "validation"),
    )


def _examples(ctx: StageContext[SftParams], policy: Policy, port: str) -> list[Example]:
    rows = [row for artifact in ctx.inputs(port) for row in read_rows(artifact.path)]
    return examples_from_rows(policy.tokenizer, rows, learn=ctx.params.learn, ends=policy.ends)
