"""Whether a chat template writes the tools of a conversation, an assistant's calls of them, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from components.contract.errors import InputError
from components.contract.messages import Message
from components.modeling.text.turn_ends import render_messages


def check_tools_rendered(tokenizer: PreTrainedTokenizerBase, messages: Sequence[Message]) -> None:
    """Raise a one-line InputError where the template leaves out tools, an assistant's calls, or the results of tools.

    What is left out changes nothing in what the template renders.
    """
    if not messages[0].tools and not any(message.tool_calls for message in messages):
        return
    if not tokenizer.chat_template:
        raise InputError("the tokenizer has no chat template, which tools need; set chat_template")
    rendering = _Rendering(tokenizer, messages)
    if messages[0].tools and not rendering.changes_without(len(messages) - 1, tools=True):
        raise InputError(
            "the chat template leaves `tools` out: the model would not see them; use a template that renders tools, or "
            "drop the column"
        )
    for at, message in enumerate(messages):
        if message.tool_calls and not rendering.changes_without(at, calls=True):
            raise InputError(
                f"the chat template leaves out the tool_calls of messages[{at}]: nothing of them would be learnt or "
                "read; use a template that renders calls of tools"
            )
        if message.role == "tool" and message.content and not rendering.changes_without(at, content=True):
            raise InputError(
                f"the chat template leaves out messages[{at}] (tool): the model would not see the result; use a "
                "template that renders results of tools"
            )


@dataclass(frozen=True)
class _Rendering:
    """A conversation by a template, with something of it left out."""

    tokenizer: PreTrainedTokenizerBase
    messages: Sequence[Message]

    def changes_without(self, at: int, *, tools: bool = False, calls: bool = False, content: bool = False) -> bool:
        """Return whether the text up to message `at` is another without the tools, its calls or its content."""
        plain = [message.for_template() for message in self.messages[: at + 1]]
        offered = self.messages[0].tools
        whole = render_messages(self.tokenizer, plain, generation=False, tools=offered)
        if calls:
            del plain[at]["tool_calls"]
        if content:
            plain[at]["content"] = ""
        try:
            return whole != render_messages(self.tokenizer, plain, generation=False, tools=() if tools else offered)
        except InputError:  # a template that refuses the rest does look at it
            return True
