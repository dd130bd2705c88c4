"""DAPO's overlong filtering: responses cut at the token limit are dropped."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from components.rl.configs import NoConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch


def drop_truncated(batch: Batch, more: Callable[[int], Batch], context: SlotContext, *, config: NoConfig) -> Batch:
    """Keep responses that ended by themselves.

    Source: Yu et al. 2025, DAPO (arXiv:2503.14476), section 3.4 masks the loss of truncated samples. Here they leave
    the group before its statistics are computed.
    """
    return batch.select(batch.finished)
