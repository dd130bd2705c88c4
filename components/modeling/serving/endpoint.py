"""A further model at an OpenAI-compatible endpoint: each request is sent once and its answer recorded."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from components.contract.artifacts import hash_parts
from components.contract.endpoints import Endpoint, request_key
from components.contract.errors import InputError
from components.contract.messages import without_tools
from components.modeling.ranks import current_ranks
from components.modeling.serving.asking import Answer, Asker, Pause, Request
from components.modeling.serving.models import Asked, Drawing, Likelihood, Rater, Scorer, Writer, Written, as_text
from components.modeling.serving.reading import read_likelihood, read_text

CHARACTERS_PER_TOKEN = 3
"""For estimates of a request's tokens."""
MAX_SEED = 2**31

Record = Callable[[str, dict[str, Any]], None]


class EndpointModel(Writer, Scorer, Rater):
    """A model behind a server. With several ranks the first one asks for all: all must call."""

    def __init__(
        self,
        name: str,
        endpoint: Endpoint,
        records: Mapping[str, Mapping[str, Any]],
        record: Record,
        *,
        pause: Pause = asyncio.sleep,
    ) -> None:
        """`records` are the answers of earlier attempts; `record` stores another one at once.

        Raises InputError if the environment lacks its key.
        """
        self.name = f"endpoint:{name}"
        self._counted, self._endpoint = endpoint.counted(name), endpoint
        self._answers: dict[str, Mapping[str, Any]] = {key: value["answer"] for key, value in records.items()}
        self._record = record
        self._key = _key_of(name, endpoint) if current_ranks().first else None
        self._asker = Asker(name, endpoint, self._key, self._keep, pause=pause)

    @property
    def scores(self) -> bool:
        """Return whether its API can tell log-probabilities of a text."""
        return self._endpoint.api == "completions"

    def write(self, prompts: Sequence[Asked], drawing: Drawing) -> list[list[Written | None]]:
        """Request each sample separately: servers differ in how they handle several at once."""
        rows = [[self._writing(prompt, drawing, at) for at in range(drawing.num_samples)] for prompt in prompts]
        answers = self._ask([request for row in rows for request in row])
        return [[_written(answers[request.key]) for request in row] for row in rows]

    def score(self, pairs: Sequence[tuple[str, str]]) -> list[Likelihood | None]:
        """Request the log-probabilities of prompt and text; the one token drawn after them is ignored."""
        requests = [self._scoring(prompt, text) if text else None for prompt, text in pairs]
        answers = self._ask([request for request in requests if request is not None])
        nothing = Likelihood(0.0, 0)
        return [nothing if request is None else _likelihood(answers[request.key]) for request in requests]

    def close(self) -> None:
        """Close the connections."""
        self._asker.close()

    def _ask(self, requests: Sequence[Request]) -> dict[str, Mapping[str, Any]]:
        """Return the answers by request; only requests without a recorded answer are sent, each once."""

        def ask() -> dict[str, Mapping[str, Any]]:
            new = {request.key: request for request in requests if request.key not in self._answers}
            self._asker.ask(list(new.values()))
            return {request.key: self._answers[request.key] for request in requests}

        return current_ranks().first_says(ask)

    def _keep(self, request: Request, answer: Answer) -> None:
        self._record(request.key, {"endpoint": self._counted, "request": request.body, "answer": answer})
        self._answers[request.key] = answer

    def _writing(self, prompt: Asked, drawing: Drawing, sample: int) -> Request:
        endpoint, limit = self._endpoint, drawing.max_new_tokens
        chat = endpoint.api == "chat"
        asked: dict[str, Any] = {"messages": _messages(prompt)} if chat else {"prompt": as_text(prompt)}
        asked |= {"temperature": drawing.temperature}
        if endpoint.seeds:
            asked |= {"seed": _seed(drawing.seed, sample)}
        body = {"model": endpoint.model, **asked, endpoint.length_field: limit, **endpoint.generation}
        body = {name: value for name, value in body.items() if value is not None}
        key = request_key(self._counted, {**body, "drawing_seed": drawing.seed}, sample)
        tokens = len(as_text(prompt)) / CHARACTERS_PER_TOKEN + limit
        path = "chat/completions" if chat else "completions"
        return Request(key, path, body, tokens, partial(read_text, key=self._key, max_new_tokens=limit))

    def _scoring(self, prompt: str, text: str) -> Request:
        whole = prompt + text
        body = {"model": self._endpoint.model, "prompt": whole, "max_tokens": 1, "echo": True, "logprobs": 1}
        body |= {"temperature": 0.0}
        key = request_key(self._counted, {**body, "prompt": [prompt, text]}, 0)
        read = partial(read_likelihood, prompt=prompt, text=text)
        return Request(key, "completions", body, len(whole) / CHARACTERS_PER_TOKEN + 1, read)


def _messages(prompt: Asked) -> list[dict[str, Any]]:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    asked = without_tools(prompt, "an endpoint")
    return [{"role": message.role, "content": message.content} for message in asked]


def _written(answer: Mapping[str, Any]) -> Written | None:
    return None if "refused" in answer else Written(answer["text"], answer["finished"])


def _likelihood(answer: Mapping[str, Any]) -> Likelihood | None:
    return None if "refused" in answer else Likelihood(answer["logprob"], answer["num_tokens"])


def _seed(seed: int, sample: int) -> int:
    return int(hash_parts(str(seed), str(sample))[:16], 16) % MAX_SEED


def _key_of(name: str, endpoint: Endpoint) -> str | None:
    """Return the key from the environment; raise InputError, which never quotes it, if it is missing or unsendable."""
    if endpoint.key_env is None:
        return None
    key = os.environ.get(endpoint.key_env, "").strip()
    if not key:
        raise InputError(f"endpoint {name!r} needs its key in the variable {endpoint.key_env}, which is not set here")
    if not (key.isascii() and key.isprintable() and " " not in key):
        raise InputError(f"endpoint {name!r}: the key in {endpoint.key_env} holds characters that no key has")
    return key
