"""A group of conversations for every prompt, all turns of the policy in them drawn together."""

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
    """How much the policy may write."""

    max_tokens: int | None = Field(default=None, ge=1)
    """Most tokens of the policy in all turns of a conversation, which ends where they are spent; each turn by itself
    has at most the stage's `max_new_tokens`. null: the turns' bound alone."""


def conversation(
    prompts: Sequence[Prompt], collector: Collector, context: SlotContext, *, config: ConversationConfig
) -> Batch:
    """Draw the stage's `group_size` conversations to each prompt: one draw per turn for all that are still going.

    A conversation is one trajectory: the policy's turns are learned from, verbatim as they were drawn; what the user
    says between them, and the template's marks, are context. Its last turn is verified. A turn that was cut at its
    limit is ended for the policy. Prompts of one turn are plain responses.
    """
    return collector.converse(prompts, context.settings.group_size, max_tokens=config.max_tokens)
