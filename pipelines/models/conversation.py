"""A conversation with a model, in the layout that it was trained in: its own chat template, its own tokens kept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from components.contract.errors import InputError
from components.contract.messages import Message
from components.contract.terminal import visible

if TYPE_CHECKING:
    from components.modeling.generation.sampling_config import SamplingConfig
    from components.modeling.models.policy import Policy

UNFINISHED = "\ufffd"
"""Stands at the end of a decoded text while a character lacks tokens."""


class Conversation:
    """Turns so far. A model whose template holds a single turn answers each prompt on its own."""

    def __init__(self, policy: Policy, config: SamplingConfig, *, system: str | None = None, seed: int = 0) -> None:
        """Raise InputError for a model without a tokenizer, and for a system message that its template cannot hold."""
        import torch

        if policy.tokenizer is None:
            raise InputError("the model has no tokenizer, so it cannot be talked to")
        self._policy, self._config = policy, config
        self._generator = torch.Generator().manual_seed(seed)
        self._system = [Message(role="system", content=system)] if system else []
        self.forgets = not self._holds_turns()
        """Whether each prompt is answered on its own."""
        if self.forgets and system:
            raise InputError("the model's chat template holds a single prompt, no system message")
        self.restart()

    def restart(self) -> None:
        """Forget what was said."""
        self._messages: list[Message] = list(self._system)
        self._context: list[int] = []
        self._last: list[int] = []

    def answer(self, prompt: str) -> Iterator[str]:
        """Yield the answer in pieces that are safe for a terminal. What was yielded is kept, also of a stopped answer.

        Raises InputError, and keeps the conversation as it was, for a prompt that the template or the model's length
        does not allow.
        """
        from components.modeling.generation.stream import stream

        messages, context = self._opened(prompt)
        room = self._policy.max_positions - len(context)
        if room < 1:
            raise InputError(f"the conversation fills the model's {self._policy.max_positions} positions: start anew")
        limit = min(self._config.max_new_tokens, room)
        config = self._config.model_copy(update={"max_new_tokens": limit})
        self._messages, self._context, self._last = messages, context, []
        tokens = stream(self._policy, context, config, generator=self._generator)
        yield from self._pieces(tokens)

    def _pieces(self, tokens: Iterator[int]) -> Iterator[str]:
        from components.modeling.text.prompting import decode_response

        assert self._policy.tokenizer is not None
        told, text = 0, ""
        for token in tokens:
            self._last.append(token)
            text = decode_response(self._policy.tokenizer, self._last, self._policy.ends)
            if len(text) > told and not text.endswith(UNFINISHED):
                yield visible(text[told:])
                told = len(text)
        if len(text) > told:
            yield visible(text[told:])

    def _opened(self, prompt: str) -> tuple[list[Message], list[int]]:
        """Return messages and token ids up to the next answer."""
        from components.modeling.text.prompting import encode_prompts
        from components.modeling.text.turns import script

        policy = self._policy
        assert policy.tokenizer is not None
        if not prompt.strip():
            raise InputError("the prompt is empty")
        if self.forgets:
            return [], encode_prompts(policy.tokenizer, [prompt], policy.ends)[0]
        answered = [Message(role="assistant", content=None)] if self._context else []
        messages = [*self._messages, *answered, Message(role="user", content=prompt)]
        found = script(policy.tokenizer, messages, policy.ends)
        if not self._context:
            return messages, found.opening
        return messages, [*self._context, *self._last, *found.following(found.num_turns - 2, self._last)]

    def _holds_turns(self) -> bool:
        """Return whether the model's template renders more than one turn."""
        from components.modeling.text.turns import script

        user = Message(role="user", content="six")
        assert self._policy.tokenizer is not None
        if not self._policy.tokenizer.chat_template:
            return False
        try:
            script(self._policy.tokenizer, [user, Message(role="assistant", content=None), user], self._policy.ends)
        except InputError:
            return False
        return True
