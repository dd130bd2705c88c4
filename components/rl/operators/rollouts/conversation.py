"""A group of conversations for every prompt, drawn turn by turn, all conversations together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from components.rl.configs import SlotConfig
from components.rl.step.context import SlotContext

if TYPE_CHECKING:
    from components.rl.batch.batch import Batch, Prompt
    from components.rl.step.collector import Collector


class ConversationConfig(SlotConfig):
    """The policy's token budget."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Maximum tokens of the policy over all turns of a conversation, which ends when they are used up; each turn is
    also limited to the stage's `max_new_tokens`. null: only the limit per turn."""


def conversation(
    prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: ConversationConfig
) -> Batch:
    """Draw the stage's `group_size` conversations for each prompt: one draw per turn for all unfinished ones.

    A conversation is one trajectory: the policy's turns are learned exactly as drawn; the user's turns between them
    and the template's tokens are context. The last turn is verified. A turn cut at its limit gets the end token
    appended. Prompts of one turn are plain responses.
    """
    return collector.converse(prompts, context.settings.group_size, max_tokens=config.max_tokens)
