"""Demonstrations beside the policy's own responses: every group gets some of the same prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field, field_validator

from components.contract.operators import OperatorSpec
from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext
from components.tasks.slots import DEMONSTRATOR

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch
    from components.rl.step.collector import Collector


class DemonstrationsConfig(SlotConfig):
    """Who demonstrates, and how often."""

    demonstrator: Annotated[OperatorSpec, DEMONSTRATOR] = OperatorSpec(name="gold")
    """The operator of slot demonstrator that writes a response to an item."""
    count: int = Field(default=1, ge=1)
    """Demonstrations per group."""

    @field_validator("demonstrator")
    @classmethod
    def _known(cls, value: OperatorSpec) -> OperatorSpec:
        value.resolve()
        return value


def demonstrations(batch: Batch, collector: Collector, context: SlotContext, *, config: DemonstrationsConfig) -> Batch:
    """Return the batch with `count` additional external responses, verified and rewarded, in every group.

    Their text depends on seed, step and item only.
    """
    from components.rl.batch.joining import regroup
    from components.tasks.seeds import derive_rng

    write = config.demonstrator.resolve()
    prompts = [prompt for prompt in batch.prompts for _ in range(config.count)]
    texts = []
    for index, prompt in enumerate(prompts):
        number = index % config.count
        texts.append(
            write(prompt.item, derive_rng(context.seed, "demonstrations", context.step, number, prompt.item.id))
        )
    return regroup([batch, collector.score(collector.responses(prompts, texts))])
