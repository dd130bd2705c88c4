"""Whether a response consists of the tagged parts that it should have, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from components.rl.configs import RewardConfig
from components.rl.step.context import SlotContext
from components.tasks.blocks import Block, Grammar, blocks

if TYPE_CHECKING:
    from torch import Tensor

    from components.rl.batch.batch import Batch


class TagOrderConfig(RewardConfig):
    """The tags in their order, and what else may be there."""

    grammar: Grammar = Grammar()
    """The tags, in the order in which a response must have them, each once."""
    alone: bool = True
    """Whether nothing but white space may stand outside them."""
    partial: bool = False
    """Whether part of the order counts: the share of the tags that are there in order; else all or nothing."""


def tag_order(batch: Batch, context: SlotContext, *, config: TagOrderConfig) -> Tensor:
    """Return [S]: 1 where the response is the tagged parts in order, each once, else 0, or with `partial` a share.

    The share is the longest common subsequence over the longer of both lists of tags, so that repeating a tag costs
    what leaving one out does.
    """
    from components.rl.batch.texts import of_texts
    from components.tasks.keywords import ordered_coverage

    def grade(text: str) -> float:
        found = blocks(text, config.grammar)
        if config.alone and _outside(text, found).strip():
            return 0.0
        share = ordered_coverage([block.tag for block in found], config.grammar.tags)
        return share if config.partial else float(share == 1.0)

    return of_texts(batch, lambda item, text: grade(text))


def _outside(text: str, found: Sequence[Block]) -> str:
    """Return what a text has beside its blocks."""
    ends = [0, *(block.end for block in found)]
    starts = [*(block.start for block in found), len(text)]
    return "".join(text[end:start] for end, start in zip(ends, starts, strict=True))
