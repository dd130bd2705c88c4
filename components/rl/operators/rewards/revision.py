"""What a text does for the answer that follows it: Critique-RL's reward of refinement, and its variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from components.contract.errors import InputError
from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class RevisionConfig(RewardConfig):
    """Which change counts, and its values."""

    reads: ClassVar[frozenset[str]] = frozenset({"before_s", "after_s"})
    of: Literal["after", "change", "kept_or_mended"] = "after"
    """after: whether the next answer is right. change: that less whether the last one was. kept_or_mended: `kept` where
    a right answer stays right, 1 where a wrong one becomes right, else 0."""
    right: float = 1.0
    """Reward of an `of` of 1."""
    wrong: float = 0.0
    """Reward of an `of` of 0; -1 lies as far below it as 1 above."""
    kept: float = 0.2
    """What `kept_or_mended` gives for an answer that stays right."""


def revision(batch: Batch, context: SlotContext, *, config: RevisionConfig) -> Tensor:
    """Return [S]: `wrong` + (`right` - `wrong`) times what the row's text did for the answer after it.

    Where several answers follow, their mean; NaN where none could be verified. Marks are those of rollout roles.
    Source: Xi et al. 2025, Critique-RL: r_refine (after), and r_delta (change) and r_correct (kept_or_mended) of its
    released code.
    """
    if "after_s" not in batch.extras:
        raise InputError("reward revision: these responses are of no rollout `roles`, so no answer follows them")
    before, after = batch.extras["before_s"], batch.extras["after_s"]
    if config.of == "after":
        value = after
    elif config.of == "change":
        value = after - before
    else:
        value = after * (before * config.kept + (1 - before))
    return config.wrong + (config.right - config.wrong) * value
