"""Samples: responses with their verdicts and rewards, for people to read. Free of torch and pandas.

A component writes them to `samples.jsonl` of a Metrics output, one JSON object per line; rows of Rollouts and of
demonstrations have the same fields. What a model wrote is hostile: readers show it by `visible` or escape it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from components.contract.errors import InputError
from components.contract.messages import filled, read_messages
from components.contract.operator_files.names import plain_name

KEPT_HEAD, KEPT_TAIL = 12_000, 4_000
"""Characters kept of the beginning and the end of a longer text."""
Who = Literal["system", "user", "policy", "other"]
"""Author of a piece of a conversation; `other` wrote in the policy's place: a demonstrator or a teacher."""


class Sample(BaseModel):
    """One response. Fields that a component does not know are None or empty."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=True)

    prompt: str = ""
    """The prompt, or the conversation before the response as readable text."""
    response: str | None = None
    """The policy's last turn; None for rows of prompts alone."""
    prompt_id: str = ""
    """Equal for the same prompt in every stage and run."""
    domain: str = ""
    step: int | None = None
    """Training step, from 1."""
    messages: list[dict[str, Any]] = Field(default_factory=list)
    """The conversation, if it is one; see `contract.messages`."""
    turns: list[str] = Field(default_factory=list)
    """The policy's turns before the response."""
    answer: str | None = None
    """The reference answer."""
    outcome: str | None = None
    """right, wrong, failed (the verification broke) or unscored."""
    detail: str = ""
    """Why it is not right, in the verifier's words."""
    reward: float | None = None
    parts: dict[str, float | None] = Field(default_factory=dict)
    """Reward by operator, weights included; they add up to the reward."""
    num_tokens: int | None = None
    finished: bool | None = None
    """False if the response was cut at the token limit."""
    author: Literal["policy", "other"] = "policy"
    """Who wrote the response."""

    @field_validator("answer", "detail", "domain", "prompt_id", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        return value if value is None or isinstance(value, str) else json.dumps(value)

    @field_validator("parts", mode="before")
    @classmethod
    def _plain_names(cls, value: Any) -> Any:
        return {plain_name(str(name)): part for name, part in value.items()} if isinstance(value, dict) else value

    @property
    def truncated(self) -> bool:
        """Whether the response was cut at the token limit."""
        return self.finished is False

    @property
    def length(self) -> int:
        """Return the response's length in tokens, in characters where tokens are not known."""
        return len(self.response or "") if self.num_tokens is None else self.num_tokens

    @property
    def badness(self) -> tuple[float, int]:
        """Return a key that sorts from worst to best: by reward, then by outcome; a failed verification comes first."""
        order = {"failed": 0, "wrong": 1, "right": 3}.get(self.outcome or "", 2)
        reward = self.reward
        if reward is None or reward != reward:
            reward = {0: float("-inf"), 1: 0.0, 3: 1.0}.get(order, 0.0)
        return reward, order

    def pieces(self) -> list[tuple[Who, str]]:
        """Return the conversation as (author, text), the response last."""
        said = self._conversation() or [("user", self.prompt)]
        return said if self.response is None else [*said, (self.author, self.response)]

    def _conversation(self) -> list[tuple[Who, str]]:
        if not self.messages:
            return []
        names: dict[str, Who] = {"system": "system", "user": "user", "assistant": self.author}
        try:
            whole = filled(read_messages(self.messages), self.turns)
        except InputError:  # a row by another program: its readable prompt is shown
            return []
        return [(names[message.role], message.content or "") for message in whole]


def read_samples(lines: Iterable[str | bytes]) -> Iterator[Sample]:
    """Yield the samples of JSON lines; lines that are none, such as a last one still being written, are left out."""
    for line in lines:
        try:
            yield Sample.model_validate(json.loads(line))
        except (ValueError, RecursionError, ValidationError):
            continue


def shortened(text: str, head: int = KEPT_HEAD, tail: int = KEPT_TAIL) -> str:
    """Return a text without its middle if it is longer than `head` + `tail` characters, saying how much is gone."""
    cut = len(text) - head - tail
    return text if cut <= 0 else f"{text[:head]}\n[... {cut:,} characters left out ...]\n{text[len(text) - tail :]}"


def spread(items: Sequence[Any], count: int) -> list[Any]:
    """Return up to `count` evenly spaced items, the first and the last among them."""
    if len(items) <= count:
        return list(items)
    return [items[place * (len(items) - 1) // max(1, count - 1)] for place in range(count)]
