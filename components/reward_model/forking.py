"""Which parameters of a reward model's training may differ from a checkpoint on. Does not import torch."""

from __future__ import annotations

from collections.abc import Iterator

from components.contract.forking import Held
from components.modeling.supervised.forking import misfits as supervised_misfits
from components.reward_model.params import RewardModelParams


def misfits(before: RewardModelParams, now: RewardModelParams, held: Held) -> Iterator[str]:
    """Yield why a checkpoint made with `before` cannot go on with `now`, one line each."""
    if before.scorer_loss != now.scorer_loss:
        yield "scorer_loss: the checkpoint's head was fitted to another loss"
        now = now.model_copy(update={"scorer_loss": before.scorer_loss})
    yield from supervised_misfits(before, now, held)
