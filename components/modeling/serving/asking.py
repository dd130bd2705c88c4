"""Many requests to one endpoint: concurrent, rate-limited, retried with bounds, and stopped when it is down."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from components.contract.endpoints import Endpoint
from components.contract.errors import InputError, StageFailed
from components.modeling.serving.client import Failure, Misconfigured, Refusal, post
from components.modeling.serving.pace import Pace

if TYPE_CHECKING:
    from aiohttp import ClientSession

FIRST_PAUSE = 0.5
"""Seconds before the second try; the pause doubles each time."""
MOST_REFUSALS = 8
"""This many refused requests in a row stop the stage: the cause is not in a single request."""

Answer = dict[str, Any]
Keep = Callable[["Request", Answer], None]
Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class Request:
    """A request, and the reader of its answer."""

    key: str
    """SHA-256 hex of everything that determines the answer."""
    path: str
    body: dict[str, Any]
    tokens: float
    """Estimated tokens, for the rate limit."""
    read: Callable[[Any], Answer]
    """Returns the recorded part of the JSON; raises Failure if it is not an answer."""


class Asker:
    """Sends requests to one endpoint. A worker records each answer before it sends its next request."""

    def __init__(
        self, name: str, endpoint: Endpoint, key: str | None, keep: Keep, *, pause: Pause = asyncio.sleep
    ) -> None:
        self._name, self._endpoint, self._key, self._keep, self._pause = name, endpoint, key, keep, pause
        self._pace = Pace(endpoint.requests_per_minute, endpoint.tokens_per_minute)
        self._runner: asyncio.Runner | None = None
        self._session: ClientSession | None = None
        self._resume_at = 0.0
        self._stopped: Exception | None = None
        self._refused: list[tuple[Request, Answer]] = []
        self.num_asked = 0
        """Number of tries so far."""

    def ask(self, requests: Sequence[Request]) -> None:
        """Send all and record every answer; raise StageFailed if the endpoint is down, InputError if it is misused."""
        if not requests:
            return
        self._runner = self._runner or asyncio.Runner()
        self._runner.run(self._ask_all(requests))
        if self._stopped is not None:
            stopped, self._stopped = self._stopped, None
            raise stopped
        self._keep_refused()

    def close(self) -> None:
        """Close the connections."""
        if self._runner is not None:
            if self._session is not None:
                self._runner.run(self._session.close())
            self._runner.close()
            self._runner, self._session = None, None

    async def _ask_all(self, requests: Sequence[Request]) -> None:
        from aiohttp import ClientSession, ClientTimeout, DummyCookieJar, TCPConnector

        if self._session is None:
            self._session = ClientSession(
                connector=TCPConnector(limit=self._endpoint.concurrency),
                timeout=ClientTimeout(total=None),  # every try has its own deadline
                cookie_jar=DummyCookieJar(),
                auto_decompress=False,
            )
        queue = iter(requests)
        count = min(self._endpoint.concurrency, len(requests))
        workers = [asyncio.ensure_future(self._work(queue)) for _ in range(count)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()

    async def _work(self, queue: Iterator[Request]) -> None:
        for request in queue:
            if self._stopped is not None:
                return
            await self._ask_one(request)

    async def _ask_one(self, request: Request) -> None:
        reason = ""
        for number in range(self._endpoint.retries + 1):
            await self._wait_for_turn(request)
            if self._stopped is not None:
                return
            try:
                answer = await self._try(request)
            except Failure as failure:
                reason = str(failure)
                if not self._may_wait(failure, number):
                    break
                continue
            except Refusal as refusal:
                self._note_refusal(request, str(refusal))
                return
            except Misconfigured as wrong:
                self._stop(InputError(f"{self._title} answers {wrong}; {self._advice}"))
                return
            self._keep_refused()
            self._keep(request, answer)
            return
        tries = "1 try" if number == 0 else f"{number + 1} tries"
        kept = "what it has answered is kept, and the same command goes on when it is back"
        self._stop(StageFailed(f"{self._title} is down ({reason}; {tries}); {kept}"))

    async def _try(self, request: Request) -> Answer:
        assert self._session is not None
        self.num_asked += 1
        url = f"{self._endpoint.base_url}/{request.path}"
        seconds = self._endpoint.timeout_seconds
        return request.read(await post(self._session, url, request.body, self._key, seconds=seconds))

    async def _wait_for_turn(self, request: Request) -> None:
        now = time.monotonic()
        wait = max(self._pace.reserve(request.tokens, now), self._resume_at) - now
        if wait > 0:
            await self._pause(wait)

    def _may_wait(self, failure: Failure, number: int) -> bool:
        """Return whether to try again, and set when: a pause that a server asks for applies to all requests."""
        longest = self._endpoint.max_wait_seconds
        asked = failure.wait_seconds
        if number == self._endpoint.retries or (asked is not None and asked > longest):
            return False
        pause = min(longest, FIRST_PAUSE * 2**number) * random.uniform(0.5, 1.0)
        if asked is not None:
            pause = asked + pause / 10
        self._resume_at = max(self._resume_at, time.monotonic() + pause)
        return True

    def _note_refusal(self, request: Request, reason: str) -> None:
        self._refused.append((request, {"refused": reason}))
        if len(self._refused) >= MOST_REFUSALS:
            self._refused.clear()
            self._stop(InputError(f"{self._title} refuses every request ({reason}); {self._advice}"))

    def _keep_refused(self) -> None:
        for request, answer in self._refused:
            self._keep(request, answer)
        self._refused.clear()

    def _stop(self, error: Exception) -> None:
        self._stopped = self._stopped or error

    @property
    def _title(self) -> str:
        return f"endpoint {self._name!r} ({self._endpoint.base_url}, model {self._endpoint.model!r})"

    @property
    def _advice(self) -> str:
        key = f", or the key in {self._endpoint.key_env}" if self._endpoint.key_env else ""
        return f"correct its entry beside the pools{key}"
