"""Baseline answers: one text for each prompt, which what the policy writes is compared with.

Shapes as in components/rl/batch/batch.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from components.rl.baseline_config import BaselineConfig
from components.rl.batch.batch import Prompt
from components.rl.step.context import SlotContext
from components.tasks.seeds import derive_rng


def baseline_answers_of(prompts: Sequence[Prompt], context: SlotContext, config: BaselineConfig) -> list[str]:
    """Return P texts, which depend on the stage's seed and the item alone: asked again, a prompt has the same answer.

    The starting policy answers greedily, up to the step's token limit; nothing of it is counted as drawn.
    """
    writers = {domain: spec.resolve() for domain, spec in config.demonstrators.items()}
    texts = {}
    for prompt in prompts:
        if (write := writers.get(prompt.item.domain)) is not None:
            texts[prompt.item.id] = write(prompt.item, derive_rng(context.seed, "baseline", prompt.item.id))
    left = {prompt.item.id: prompt for prompt in prompts if prompt.item.id not in texts}
    if left:
        drawn = context.collector.draw(
            list(left.values()),
            1,
            temperature=0.0,
            policy=context.policies.start,
            generator=torch.Generator().manual_seed(context.seed),  # not the run's, though a greedy draw needs none
            to_learn=False,
        )
        texts |= dict(zip(left, drawn.texts, strict=True))
    return [texts[prompt.item.id] for prompt in prompts]
