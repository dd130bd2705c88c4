"""The part of Airflow's REST interface that following a run needs, over real HTTP: it answers what a test put there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

API = "/api/v2/"


@dataclass
class AirflowApi:
    """Answers by path below /api/v2, and what was sent."""

    answers: dict[str, Any] = field(default_factory=dict)
    sent: list[tuple[str, str, Any]] = field(default_factory=list)
    """(method, path, body) of all requests that change something."""
    broken: list[int] = field(default_factory=list)
    """Codes that the next requests end with."""
    url: str = ""


@contextmanager
def airflow_api() -> Iterator[AirflowApi]:
    """Serve an Airflow on a free port of this machine."""
    served = AirflowApi()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        do_PATCH = do_POST

        def _answer(self, body: Any) -> None:
            path = urlsplit(self.path).path
            if path == "/auth/token":
                return self._send(200, {"access_token": "a-token"})
            if served.broken:
                return self._send(served.broken.pop(0), {"detail": "not now"})
            path = path.removeprefix(API)
            if body is not None:
                served.sent.append((self.command, path, body))
            known = path in served.answers
            return self._send(200 if known else 404, served.answers.get(path, {"detail": "no such thing"}))

        def _send(self, code: int, answer: Any) -> None:
            data = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_address[1]}"
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield served
        server.shutdown()
