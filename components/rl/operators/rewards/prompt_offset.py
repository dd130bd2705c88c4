"""A constant that every response to a prompt receives alike: what a reward of comparisons leaves open."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class PromptOffsetConfig(RewardConfig):
    """How far the constants of prompts lie apart."""

    spread: float = Field(default=1.0, ge=0)
    """Standard deviation of the constants over prompts, in units of reward."""


def prompt_offset(batch: Batch, context: SlotContext, *, config: PromptOffsetConfig) -> Tensor:
    """Return [S]: delta(x), a Gaussian constant of the prompt, drawn by the stage's seed and the item's id.

    A reward model of pairs is determined up to such a constant, so that r and r + delta(x) state the same preferences.
    Whoever compares responses to one prompt does not see it; a critic has to learn it.

    Source: Wu et al. 2023, P3O (arXiv:2310.00212), section 3: rewards are equivalent up to a shift of each prompt.
    """
    import torch

    from components.tasks.seeds import derive_rng

    drawn = [derive_rng(context.seed, "prompt_offset", prompt.item.id).gauss(0.0, 1.0) for prompt in batch.prompts]
    return config.spread * torch.tensor(drawn)[batch.group]
