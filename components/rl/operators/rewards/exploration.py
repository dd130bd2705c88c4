"""A reward for trying more, whether or not the answer is right (RLSP)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pydantic import Field

from components.contract.regular import RegularExpression
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class ExplorationConfig(RewardConfig):
    """What a step is, and how the reward of further ones falls."""

    separator: RegularExpression = r"\n+"
    """Regular expression between the steps of a thought, such as `\\bno\\b` between the tries of a search."""
    ratio: float = Field(default=0.5, gt=0, lt=1)
    """d: what is left to gain after `scale` steps, as a share of what was left before them."""
    scale: float = Field(default=1.0, gt=0)
    """Steps over which `ratio` holds."""
    most: int | None = Field(default=None, ge=1)
    """Steps at which the reward is 1, having risen linearly; `ratio` and `scale` are then not read."""


def exploration(batch: Batch, context: SlotContext, *, config: ExplorationConfig) -> Tensor:
    """Return [S]: 1 - ratio^(steps / scale), or min(1, steps / most); 0 without `<answer>` or with a step twice.

    Steps are the parts of what precedes the answer; case and white space do not tell steps apart. Reads no outcome.

    Source: Ye et al. 2025, On the Emergence of Thinking in LLMs I (arXiv:2502.06773), RLSP: an exploration reward apart
    from correctness, in its simplest form for length. Both forms and their constants are reconstructed.
    """
    from components.rl.batch.texts import of_texts

    return of_texts(batch, lambda item, text: explored(text, config))


def explored(text: str, config: ExplorationConfig) -> float:
    """Return the reward of one response."""
    from components.tasks.answers import ANSWER_OPEN, extract_answer, path_to_answer

    if ANSWER_OPEN not in text or not extract_answer(text):
        return 0.0
    thought = text.rpartition(ANSWER_OPEN)[0]
    parts = [path_to_answer(part + ANSWER_OPEN).casefold() for part in re.split(config.separator, thought)]
    steps = [part for part in parts if part]
    if len(set(steps)) < len(steps):
        return 0.0
    if config.most is not None:
        return min(1.0, len(steps) / config.most)
    return 1.0 - float(config.ratio ** (len(steps) / config.scale))
