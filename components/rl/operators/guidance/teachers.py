"""Further models answer prompts that the policy fails: their responses join the groups with few right ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from components.contract.further import TEACHERS
from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch
    from components.rl.step.collector import Collector


class TeachersConfig(SlotConfig):
    """When teachers are queried, and how."""

    asks: ClassVar[tuple[str, ...]] = (TEACHERS,)
    count: int = Field(default=1, ge=1)
    """Responses that each teacher writes to a prompt."""
    max_pass_rate: float = Field(default=0.0, ge=0, le=1)
    """Groups with a higher share of right responses get none; 1 queries teachers for every group."""
    temperature: float = Field(default=1.0, ge=0)
    """Of the teachers."""


def teachers(batch: Batch, collector: Collector, context: SlotContext, *, config: TeachersConfig) -> Batch:
    """Return the batch with the teachers' responses, verified and rewarded, in the groups that need them.

    They are external: no statistic of the policy counts them, and `hybrid_clip` or `demonstrations`' losses may treat
    them separately. Refusals are left out. Prompts of conversations are given as text. Metric `taught`: responses
    that joined.
    """
    import torch

    from components.modeling.serving.models import Drawing
    from components.rl.batch.batch import RIGHT
    from components.rl.batch.joining import regroup
    from components.tasks.seeds import derive_seed

    right, total = (torch.zeros(len(batch.prompts)) for _ in range(2))
    right.index_add_(0, batch.group, (batch.outcomes == RIGHT).float())
    total.index_add_(0, batch.group, torch.ones(batch.num_responses))
    needy = [at for at, rate in enumerate((right / total.clamp(min=1)).tolist()) if rate <= config.max_pass_rate]
    prompts = [batch.prompts[at] for at in needy]
    drawing = Drawing(
        num_samples=config.count,
        max_new_tokens=context.settings.max_new_tokens,
        temperature=config.temperature,
        seed=derive_seed(context.seed, "teachers", context.step),
    )
    asked, texts = [], []
    for teacher in context.further[TEACHERS]:
        answers = teacher.write([prompt.item.prompt for prompt in prompts], drawing) if prompts else []
        for prompt, written in zip(prompts, answers, strict=True):
            kept = [one.text for one in written if one is not None]
            asked += [prompt] * len(kept)
            texts += kept
    context.metrics["taught"] = float(len(texts))
    return regroup([batch, collector.score(collector.responses(asked, texts))]) if texts else batch
