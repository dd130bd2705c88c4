"""A share of steps on the policy's own draws; the others learn from responses that were there before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import Field, field_validator

from components.contract.operators import OperatorSpec
from components.rl.configs import SlotConfig
from components.rl.labels import ANSWERS
from components.rl.step.context import SlotContext
from components.tasks.slots import DEMONSTRATOR

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector


class StudentShareConfig(SlotConfig):
    """How often the policy draws, and what stands there where it does not."""

    reads: ClassVar[frozenset[str]] = frozenset({ANSWERS})
    share: float = Field(default=0.5, ge=0, le=1)
    """Probability that a step is the policy's own draws: GKD's lambda, 1 for none of the others."""
    demonstrator: Annotated[OperatorSpec, DEMONSTRATOR] = OperatorSpec(name="recorded")
    """The operator of slot demonstrator that gives the other steps' responses: by default those of the rows' data."""
    count: int = Field(default=1, ge=1)
    """Responses that it gives to each prompt; more than 1 where it does not always write the same."""

    @field_validator("demonstrator")
    @classmethod
    def _known(cls, value: OperatorSpec) -> OperatorSpec:
        value.resolve()
        return value


def student_share(
    prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: StudentShareConfig
) -> Batch:
    """Return a group drawn from the policy for each prompt, or, at steps that are not its own, given responses.

    Given responses are external: no statistic of the policy counts them. Which steps are whose depends on seed and step
    only. Metric `student_draws`: 1 at a step of the policy's own.
    Source: Agarwal et al. 2024, GKD (arXiv:2306.13649), algorithm 1.
    """
    from components.rl.batch.joining import regroup
    from components.tasks.seeds import derive_rng

    own = derive_rng(context.seed, "student_share", context.step).random() < config.share
    context.metrics["student_draws"] = float(own)
    if own:
        return collector.draw(prompts, context.settings.group_size)
    write = config.demonstrator.resolve()
    asked = [(prompt, number) for prompt in prompts for number in range(config.count)]
    texts = [
        write(prompt.item, derive_rng(context.seed, "student_share", context.step, number, prompt.item.id))
        for prompt, number in asked
    ]
    return regroup([collector.responses([prompt for prompt, _ in asked], texts)])
