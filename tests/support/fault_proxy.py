"""A real HTTP proxy that fails on purpose: a seeded share of requests, or exactly the ones that a test
names."""

from __future__ import annotations

import http.client
import random
import socket
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from urllib.parse import urlsplit

FAULTS = ("error500", "error503", "drop", "hang", "truncate", "lost")
"""error500, error503: refused without being passed on. drop: the connection closes before the request is
passed on. hang: silence, then the connection closes. truncate: the answer's body stops half way. lost: the
request is carried out and its answer never arrives."""

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "expect", "proxy-connection"}
REFUSAL = b"<Error><Code>%s</Code><Message>injected by the fault proxy</Message></Error>"


@dataclass(frozen=True)
class Planned:
    """A fault for the next request whose method and path match."""

    fault: str
    method: str
    path: str


class FaultProxy:
    """Passes requests on to `target` and lets a share of them fail. Use as a context manager; `url` is its
    address.

    `injected` counts faults by kind, `served` all requests.
    """

    def __init__(
        self,
        target: str,
        *,
        share: float = 0.1,
        seed: int = 0,
        kinds: Sequence[str] = FAULTS,
        hang_seconds: float = 1.0,
    ) -> None:
        self.target = urlsplit(target).netloc
        self.share = share
        self.kinds = tuple(kinds)
        self.hang_seconds = hang_seconds
        self.injected: Counter[str] = Counter()
        self.served = 0
        self.closing = threading.Event()
        self._random = random.Random(seed)
        self._planned: list[Planned] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """Return the proxy's own address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def plan(self, fault: str, *, method: str = "", path: str = "", times: int = 1) -> None:
        """Let the next `times` requests with this method, and `path` in their path, fail in this way."""
        assert fault in FAULTS
        with self._lock:
            self._planned += [Planned(fault, method, path)] * times

    def decide(self, method: str, path: str) -> str | None:
        """Return the fault of this request, or None."""
        with self._lock:
            self.served += 1
            fault = None
            for planned in self._planned:
                if planned.method in ("", method) and planned.path in path:
                    self._planned.remove(planned)
                    fault = planned.fault
                    break
            else:
                if self._random.random() < self.share:
                    fault = self._random.choice(self.kinds)
            if fault:
                self.injected[fault] += 1
            return fault

    def __enter__(self) -> FaultProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    proxy: FaultProxy

    def handle_error(self, request: object, client_address: object) -> None:
        """Stay silent: clients that hang up are what this server is for."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def _handle(self) -> None:
        proxy = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = proxy.decide(self.command, self.path)
        if fault in ("error500", "error503"):
            status, code = (500, b"InternalError") if fault == "error500" else (503, b"SlowDown")
            self._answer(status, [], REFUSAL % code)
        elif fault == "drop":
            self._hang_up()
        elif fault == "hang":
            proxy.closing.wait(proxy.hang_seconds)
            self._hang_up()
        else:
            status, headers, answer = self._forward(body)
            if fault == "lost":
                self._hang_up()
            else:
                self._answer(status, headers, answer, cut=fault == "truncate")

    do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_PATCH = _handle

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.server.proxy.target, timeout=60)
        try:
            headers = {name: value for name, value in self.headers.items() if name.lower() not in HOP_BY_HOP}
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            kept = [(name, value) for name, value in answer.getheaders() if name.lower() not in HOP_BY_HOP]
            return answer.status, kept, answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, *, cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self.wfile.flush()
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test output clean."""
