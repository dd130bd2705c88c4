"""The samples of an evaluation, asked of the server turn by turn, and verified as stage evaluate verifies its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from components.contract.artifacts import hash_parts
from components.contract.endpoints import request_key
from components.contract.messages import Message, filled, num_turns, without_tools
from components.measure.outcomes import ItemOutcomes
from components.modeling.generation.sampling_config import SamplingConfig
from components.modeling.serving.asking import Request
from components.serve.asking import reader
from components.tasks.item import Item
from components.tasks.verify import verify_all

MAX_SEED = 2**31
CHARACTERS_PER_TOKEN = 3


@dataclass
class Sample:
    """One response to one item, as far as it was written."""

    item: Item
    number: int
    answers: list[Mapping[str, Any]] = field(default_factory=list)
    """Of each turn."""
    failed: str = ""
    """Why a request of it failed or was refused; it then has no response."""

    @property
    def is_open(self) -> bool:
        """Return whether a turn is to be written."""
        return not self.failed and len(self.answers) < num_turns(messages_of(self.item))

    @property
    def turns(self) -> list[str]:
        """Return the texts written so far."""
        return [answer["text"] for answer in self.answers]

    def take(self, answer: Mapping[str, Any]) -> None:
        """Add the answer to the next turn."""
        if reason := answer.get("failed") or answer.get("refused"):
            self.failed = str(reason)
        else:
            self.answers.append(answer)


@dataclass(frozen=True)
class Asking:
    """How samples become requests."""

    api: str
    """chat or completions."""
    model: str
    """The name that the server knows the model by."""
    digest: str
    """Of the model and of what serves it: part of a request's address, in the place of the name, which is new each
    time."""
    key: str
    seed: int

    def request(self, sample: Sample, sampling: SamplingConfig) -> Request:
        """Return the request for the sample's next turn."""
        item, turn = sample.item, len(sample.answers)
        chat, limit = self.api == "chat", sampling.max_new_tokens
        if chat:
            written = without_tools(filled(messages_of(item), sample.turns), f"prompt {item.id}")
            told = [{"role": one.role, "content": one.content} for one in _until_open(written)]
            asked: dict[str, Any] = {"messages": told, "logprobs": True}
        else:
            asked = {"prompt": item.prompt, "logprobs": 1, "add_special_tokens": False}
        seed = int(hash_parts(str(self.seed), "serve", item.id, str(sample.number), str(turn))[:16], 16) % MAX_SEED
        asked |= {"max_tokens": limit, "temperature": sampling.temperature, "top_p": sampling.top_p, "seed": seed}
        address = request_key({"served": self.digest, "api": self.api}, {**asked, "item": item.id}, sample.number)
        read = reader(chat=chat, key=self.key, max_new_tokens=limit)
        tokens = len(item.prompt) / CHARACTERS_PER_TOKEN + limit
        path = "chat/completions" if chat else "completions"
        return Request(address, path, {"model": self.model, **asked}, tokens, read)


def messages_of(item: Item) -> tuple[Message, ...]:
    """Return an item's messages; a prompt is the user's only one."""
    return item.messages or (Message(role="user", content=item.prompt),)


def _until_open(messages: Sequence[Message]) -> Iterator[Message]:
    for message in messages:
        if message.is_open:
            return
        yield message


def outcomes_of(samples: Sequence[Sample]) -> list[ItemOutcomes]:
    """Verify the answered samples; return one ItemOutcomes for each item that has any, in order."""
    answered = [sample for sample in samples if not sample.failed]
    keys = [(sample.item.id, sample.turns[-1]) for sample in answered]
    items = {sample.item.id: sample.item for sample in answered}
    distinct = list(dict.fromkeys(keys))
    verdicts = dict(zip(distinct, verify_all((items[id], text) for id, text in distinct), strict=True))
    by_item: dict[str, list[Sample]] = {}
    for sample in answered:
        by_item.setdefault(sample.item.id, []).append(sample)
    return [
        ItemOutcomes(
            item=items[id],
            responses=tuple(one.turns[-1] for one in found),
            verdicts=tuple(verdicts[id, one.turns[-1]] for one in found),
            lengths=tuple(sum(answer["tokens"] for answer in one.answers) for one in found),
            entropies=tuple(_surprise(one) for one in found),
            logprobs=tuple(sum(answer["logprob"] for answer in one.answers) for one in found),
            finished=tuple(all(answer["finished"] for answer in one.answers) for one in found),
            turns=tuple(tuple(one.turns[:-1]) for one in found) if num_turns(messages_of(items[id])) > 1 else (),
        )
        for id, found in by_item.items()
    ]


def _surprise(sample: Sample) -> float:
    """Return the mean of -log p of a sample's tokens: where nothing is truncated, the entropy's unbiased estimate."""
    tokens = sum(answer["tokens"] for answer in sample.answers)
    return -sum(answer["logprob"] for answer in sample.answers) / tokens if tokens else 0.0
