"""An OpenAI-compatible server over transformers, for machines without vLLM: completions and chat completions.

    python -m components.serve.server.app --folder DIR --host 127.0.0.1 --port N --model NAME ...

Its key is in POSTTRAIN_SERVE_KEY. Requests that wait are drawn together, by one thread.
"""

from __future__ import annotations

import argparse
import asyncio
import hmac
import os
import queue
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from aiohttp import web

from components.modeling.models.folder import load_tokenizer
from components.serve.server.commands import KEY_VARIABLES
from components.serve.server.drawing import Drawer, Drawn, Wanted
from components.serve.server.requests import BadRequest, answer, read_request

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
MAX_BODY = 4 << 20
GATHER_SECONDS = 0.005
"""How long a batch waits for its next request."""


class Batches:
    """One thread that draws all that waits, at most `rows` requests at a time."""

    def __init__(self, drawer: Drawer, rows: int) -> None:
        self._drawer, self._rows = drawer, rows
        self._waiting: queue.SimpleQueue[tuple[Wanted, Future[Drawn]]] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def draw(self, wanted: Wanted) -> Future[Drawn]:
        """Put a request behind the others."""
        future: Future[Drawn] = Future()
        self._waiting.put((wanted, future))
        return future

    def _work(self) -> None:
        while True:
            batch = [self._waiting.get()]
            try:
                while len(batch) < self._rows:
                    batch.append(self._waiting.get(timeout=GATHER_SECONDS))
            except queue.Empty:
                pass
            try:
                drawn = self._drawer.draw([wanted for wanted, _ in batch])
            except Exception as error:  # the batch's requests fail, and the server goes on
                for _, future in batch:
                    future.set_exception(error)
            else:
                for (_, future), one in zip(batch, drawn, strict=True):
                    future.set_result(one)


def make_app(
    batches: Batches, tokenizer: PreTrainedTokenizerFast, *, model: str, key: str, max_model_len: int
) -> web.Application:
    """Return the application: all but /health asks for the key."""

    @web.middleware
    async def with_key(request: web.Request, handler: Handler) -> web.StreamResponse:
        given = request.headers.get("Authorization", "").encode("utf-8", "surrogateescape")
        if request.path != "/health" and not hmac.compare_digest(given, f"Bearer {key}".encode()):
            return _error(401, "a key is needed")
        return await handler(request)

    async def healthy(request: web.Request) -> web.StreamResponse:
        return web.Response()

    async def models(request: web.Request) -> web.StreamResponse:
        return web.json_response({"object": "list", "data": [{"id": model, "object": "model"}]})

    async def complete(request: web.Request) -> web.StreamResponse:
        chat = request.path.endswith("/chat/completions")
        try:
            body = await request.json()
            asked = read_request(body, chat=chat, model=model, tokenizer=tokenizer, max_model_len=max_model_len)
        except (ValueError, RecursionError):
            return _error(400, "the body is no JSON")
        except BadRequest as error:
            return _error(400, str(error))
        try:
            drawn = await asyncio.wrap_future(batches.draw(asked.wanted))
        except Exception as error:  # told to the client; the server goes on
            return _error(500, f"{type(error).__name__}: {error}")
        return web.json_response(answer(asked, drawn, tokenizer, model))

    app = web.Application(middlewares=[with_key], client_max_size=MAX_BODY)
    app.add_routes([web.get("/health", healthy), web.get("/v1/models", models)])
    app.add_routes([web.post("/v1/completions", complete), web.post("/v1/chat/completions", complete)])
    return app


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": {"message": message, "code": status}}, status=status)


def main() -> None:
    """Load the model and serve it until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("folder", "host", "model", "dtype", "device"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("port", "rows", "max-model-len", "threads"):
        parser.add_argument(f"--{name}", type=int, required=True)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    folder = Path(given.folder)
    tokenizer = load_tokenizer(folder)
    if tokenizer is None:
        raise SystemExit("the model has no tokenizer, so it cannot be asked in text")
    drawer = Drawer(folder, dtype=given.dtype, device=given.device)
    app = make_app(
        Batches(drawer, given.rows),
        tokenizer,
        model=given.model,
        key=os.environ[KEY_VARIABLES["transformers"]],
        max_model_len=min(given.max_model_len, drawer.max_positions),
    )
    web.run_app(app, host=given.host, port=given.port, print=None, access_log=None, handle_signals=False)


if __name__ == "__main__":
    main()
