"""Which parameters of supervised training may differ from a checkpoint on. Does not import torch.

A checkpoint holds weights, the optimiser's averages and how many steps are done. It does not hold the order of the
data: that is a function of the seed, the examples and the batch, so whatever these depend on must be as it was.
"""

from __future__ import annotations

from collections.abc import Iterator

from components.contract.forking import Held, changed
from components.modeling.training.training_config import SupervisedConfig

FREE = (
    "optimizer",
    "steps",
    "epochs",
    "micro_batch_tokens",
    "log_every",
    "save_every",
    "checkpoint_every",
    "checkpoint_minutes",
)
"""What changes a step, or only what is told and kept of it, and neither which rows it sees nor the model's shape."""
SHAPES = ("lora", "dtype", "architecture", "tokenizer")


def misfits(before: SupervisedConfig, now: SupervisedConfig, held: Held) -> Iterator[str]:
    """Yield why a checkpoint made with `before` cannot go on with `now`, one line each."""
    yield from optimizer_misfits(before.optimizer.name, now.optimizer.name)
    if now.steps is not None and now.steps <= held.step:
        yield f"steps {now.steps} end before it; give more than {held.step}"
    for name in changed(before, now):
        first = name.partition(".")[0]
        if first in SHAPES:
            yield f"{name} changes the model's shape, and its weights fit no more"
        elif first not in FREE:
            yield f"{name} changes which rows are trained on, or their order: the steps before would have seen others"


def optimizer_misfits(before: str, now: str) -> Iterator[str]:
    """Yield why the averages of one kind of optimiser are none of another's."""
    if before != now:
        yield f"optimizer.name: the checkpoint holds the averages of {before}, which {now} cannot use"
