"""A small OpenAI-compatible server on this machine: it counts what it is asked, and misbehaves when it is told to."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Lock, Thread
from typing import Any

KEY = "sk-a-key-that-is-nowhere-else-0123456789"
Misbehaviour = Callable[[BaseHTTPRequestHandler], None]
"""Answers a request in the place of the server."""


@dataclass
class ModelServer:
    """What the server was asked, and how it is to answer."""

    url: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    """Body of a request -> how often it was answered as it should be."""
    num_requests: int = 0
    headers: list[dict[str, str]] = field(default_factory=list)
    misbehave: list[Misbehaviour | None] = field(default_factory=list)
    """What happens to the next requests, in their order; None: they are answered as they should be."""
    always: Misbehaviour | None = None
    """What happens to all requests behind these."""
    fails_on: str | None = None
    """Requests that hold this text end with 500."""
    on_request: Callable[[int], None] = lambda number: None
    """Called with the number of each request, from 1, before it is answered."""
    write: Callable[[dict[str, Any]], str] = lambda body: f"answer to {body['messages'][0]['content']}"
    released: Event = field(default_factory=Event)
    """Set when the test is over, so that nothing hangs on."""
    lock: Lock = field(default_factory=Lock)

    @property
    def num_answered(self) -> int:
        """Return how many requests were answered as they should be."""
        return sum(self.asked.values())


def completion(body: dict[str, Any]) -> dict[str, Any]:
    """Echo a prompt with a log-probability for each character: -0.1 for a digit, else -0.5, none for the first."""
    text = body["prompt"] + "!"
    values = [None, *(-0.1 if char.isdigit() else -0.5 for char in text[1:])]
    logprobs = {"tokens": list(text), "token_logprobs": values, "text_offset": list(range(len(text)))}
    return {"choices": [{"text": text, "finish_reason": "length", "logprobs": logprobs}]}


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """Serve on a free port of this machine."""
    served = ModelServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["Content-Length"])).decode()
            with served.lock:
                served.num_requests += 1
                number = served.num_requests
                served.headers.append(dict(self.headers))
                planned = served.misbehave.pop(0) if served.misbehave else served.always
            if served.fails_on is not None and served.fails_on in data:
                planned = says(500, b"")
            served.on_request(number)
            if planned is not None:
                return planned(self)
            with served.lock:
                served.asked[f"{self.path} {data}"] += 1
            body = json.loads(data)
            if self.path.endswith("/chat/completions"):
                message = {"role": "assistant", "content": served.write(body)}
                return send(self, 200, {"choices": [{"message": message, "finish_reason": "stop"}]})
            return send(self, 200, completion(body))

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """A client that was killed is none of ours."""

    with Server(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield served
        served.released.set()
        server.shutdown()


def send(handler: BaseHTTPRequestHandler, code: int, answer: Any, **headers: str) -> None:
    """Answer with JSON, or with bytes as they are."""
    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
    handler.send_response(code)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


def says(code: int, answer: Any, **headers: str) -> Misbehaviour:
    """Return what answers with a status of its own."""
    return lambda handler: send(handler, code, answer, **headers)


def half_a_body(handler: BaseHTTPRequestHandler) -> None:
    """Promise more bytes than come, and hang up."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [{"mess')
    handler.close_connection = True


def hang_up(handler: BaseHTTPRequestHandler) -> None:
    """Die before a word was said."""
    handler.close_connection = True


def flood(handler: BaseHTTPRequestHandler) -> None:
    """Send without end."""
    handler.send_response(200)
    handler.send_header("Connection", "close")
    handler.end_headers()
    handler.close_connection = True
    try:
        while True:
            handler.wfile.write(b" " * (1 << 20))
    except OSError:
        return


def hangs(served: ModelServer) -> Misbehaviour:
    """Return what never answers."""
    return lambda handler: (served.released.wait(), None)[1]


def drips(served: ModelServer) -> Misbehaviour:
    """Return what sends a byte now and then, so that no read is ever idle for long."""

    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000000")
        handler.end_headers()
        handler.close_connection = True
        try:
            while not served.released.wait(0.01):
                handler.wfile.write(b" ")
                handler.wfile.flush()
        except OSError:
            return

    return drip


def kills(process: subprocess.Popen[str]) -> Misbehaviour:
    """Return what kills a run in the middle of a request."""

    def kill(handler: BaseHTTPRequestHandler) -> None:
        os.killpg(process.pid, signal.SIGKILL)
        hang_up(handler)

    return kill
