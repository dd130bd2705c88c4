"""Requests to the server by the client that stages use for endpoints: each is timed, and one that fails is counted.

A failed request is no answer: it is never verified. What the server answered is recorded, so that a killed stage asks
for nothing twice.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from components.contract.endpoints import Endpoint
from components.contract.errors import StageFailed
from components.modeling.serving.asking import Answer, Asker, Keep, Request
from components.modeling.serving.client import Failure
from components.modeling.serving.reading import read_text
from components.serve.server.commands import HOST

NAME = "serve"
MOST_IN_A_ROW = 8
"""This many requests that fail one after the other, with none answered between, end the stage: the server is down."""


class ServedAsker(Asker):
    """Asks the stage's own server; `answer["failed"]` says why a request has none."""

    def __init__(self, endpoint: Endpoint, key: str, keep: Keep, *, alive: Callable[[], bool]) -> None:
        """`alive` says whether the server's process runs: of one that ended, nothing is asked again."""
        super().__init__(NAME, endpoint, key, keep)
        self._alive, self._retries = alive, endpoint.retries
        self._tries: dict[str, int] = {}
        self._in_a_row = 0

    async def _try(self, request: Request) -> Answer:
        self._tries[request.key] = tries = self._tries.get(request.key, 0) + 1
        began, clock = time.time(), time.monotonic()
        try:
            answer = await super()._try(request)
        except Failure as failure:
            if tries <= self._retries or not self._alive():
                raise
            self._in_a_row += 1
            if self._in_a_row >= MOST_IN_A_ROW:
                raise
            return {"failed": str(failure)}
        self._in_a_row = 0
        return {**answer, "began": began, "seconds": time.monotonic() - clock}

    def _may_wait(self, failure: Failure, number: int) -> bool:
        return self._alive() and super()._may_wait(failure, number)

    @property
    def _advice(self) -> str:
        return "see what the server says, and whether its requests fit max_new_tokens"


@contextmanager
def without_proxy() -> Iterator[None]:
    """Let requests to this machine go through no proxy, whatever the environment names."""
    names = ("no_proxy", "NO_PROXY")
    before = {name: os.environ.get(name) for name in names}
    listed = before["no_proxy"] or before["NO_PROXY"] or ""
    os.environ.update(dict.fromkeys(names, ",".join(filter(None, [listed, HOST]))))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def read_answer(found: Any, *, chat: bool, key: str, max_new_tokens: int) -> Answer:
    """Return text, finished, tokens and logprob of an answer; raise Failure where it is none."""
    read = read_text(found, key, max_new_tokens=max_new_tokens)
    logprobs = _logprobs(found["choices"][0].get("logprobs"), chat=chat)
    usage = found.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if isinstance(tokens, bool) or not isinstance(tokens, int) or not 0 <= tokens <= max_new_tokens:
        raise Failure(f"its answer does not say how many tokens it has, up to {max_new_tokens}")
    return {**read, "tokens": tokens, "logprob": math.fsum(logprobs)}


def _logprobs(found: Any, *, chat: bool) -> list[float]:
    rows = found.get("content" if chat else "token_logprobs") if isinstance(found, dict) else None
    if not isinstance(rows, list):
        raise Failure("its answer has no log-probabilities")
    values = [row.get("logprob") if isinstance(row, dict) else row for row in rows]
    if not all(isinstance(value, int | float) and math.isfinite(value) and value <= 1e-3 for value in values):
        raise Failure("its answer has log-probabilities that are none")
    return [min(0.0, float(value)) for value in values]


def reader(*, chat: bool, key: str, max_new_tokens: int) -> Callable[[Any], Answer]:
    """Return what reads an answer."""
    return partial(read_answer, chat=chat, key=key, max_new_tokens=max_new_tokens)


def ask_all(asker: Asker, requests: Sequence[Request], *, ended: Callable[[], str | None]) -> None:
    """Ask; of a server that ended meanwhile, raise StageFailed with its last lines in the place of what was refused."""
    try:
        asker.ask(requests)
    except StageFailed as error:
        if (how := ended()) is not None:
            raise StageFailed(f"the server ended while it was asked: {how}") from error
        raise
