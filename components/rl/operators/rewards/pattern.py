"""A reward for the form of a response, regardless of its content."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from components.contract.regular import RegularExpression
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class PatternConfig(RewardConfig):
    """The pattern of a well-formed response."""

    pattern: RegularExpression = r"<think>.*<answer>"
    """Regular expression to search for in the response; '.' also matches newlines."""


def pattern(batch: Batch, context: SlotContext, *, config: PatternConfig) -> Tensor:
    """Return [S]: 1 where the pattern is found, else 0."""
    import torch

    found = re.compile(config.pattern, re.DOTALL)
    return torch.tensor([float(found.search(text) is not None) for text in batch.texts])
