"""The objects over real HTTP, with streams for watches and logs; a test says when requests fail."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import RLock, Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.api_server.cluster import SimulatedCluster
from tests.support.api_server.objects import Refused, selected

_PATH = re.compile(r"/(?P<api>.+)/namespaces/(?P<namespace>[^/]+)/(?P<plural>[^/]+)(?:/(?P<name>[^/]+))?(?P<log>/log)?")
KINDS = {
    "pods": "api/v1",
    "events": "api/v1",
    "leases": "apis/coordination.k8s.io/v1",
    "jobs": "apis/batch/v1",
    "jobsets": "apis/jobset.x-k8s.io/v1alpha2",
    "trainjobs": "apis/trainer.kubeflow.org/v1alpha1",
}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    world: SimulatedCluster
    lock: RLock

    def _any(self) -> None:
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        with self.lock:
            self.world.requests.append((self.command, parts.path))
            fault = self.world.faults.pop(0) if self.world.faults else None
            if fault == "drop":
                self.close_connection = True
                return
            if isinstance(fault, int):
                self._say(fault, {"kind": "Status", "message": "as the test wants it", "code": fault})
                return
            try:
                code, answer = self._answer(unquote(parts.path), query, json.loads(raw or "null"))
            except Refused as refused:
                code, answer = refused.code, refused.status
            if fault == "unheard":  # it was done, and nobody hears of it
                self.close_connection = True
                return
        self._say(code, answer)

    do_GET = do_POST = do_PUT = do_DELETE = _any

    def _answer(self, path: str, query: dict[str, str], body: Any) -> tuple[int, Any]:
        found = _PATH.fullmatch(path)
        if found is None or KINDS.get(found["plural"]) != found["api"] or found["plural"] in self.world.unknown:
            raise Refused(404, "NotFound", "the server could not find the requested resource")
        objects, plural, namespace, name = self.world.objects, found["plural"], found["namespace"], found["name"]
        if found["log"]:
            return 200, self.world.log(name)
        if self.command == "POST":
            return 201, self.world.admit(plural, body)
        if self.command == "PUT":
            return 200, objects.replace(plural, body)
        if self.command == "DELETE":
            return 200, self.world.delete(plural, namespace, name, body)
        if name:
            return 200, objects.read(plural, namespace, name)
        if query.get("watch") == "true":
            return 200, self._watch(plural, namespace, query)
        items = [item for item in objects.list(plural, namespace) if selected(item, query.get("labelSelector", ""))]
        field, _, wanted = query.get("fieldSelector", "").partition("=")
        items = [item for item in items if field != "metadata.name" or item["metadata"]["name"] == wanted]
        return 200, {"kind": "List", "metadata": {"resourceVersion": objects.version()}, "items": items}

    def _watch(self, plural: str, namespace: str, query: dict[str, str]) -> str:
        """Return the events that there are; without any, let time pass, and return those that it brings."""
        name = query["fieldSelector"].removeprefix("metadata.name=")
        version = int(query["resourceVersion"])
        for turn in range(2):
            try:
                events = self.world.objects.since(version, plural, namespace, name)
            except Refused as refused:  # a stream that has begun says it in an event
                return json.dumps({"type": "ERROR", "object": refused.status}) + "\n"
            if events or turn:
                break
            self.world.tick(float(query["timeoutSeconds"]))
        if not events and self.world.bookmarks:
            mark = {"metadata": {"resourceVersion": self.world.objects.version()}}
            return json.dumps({"type": "BOOKMARK", "object": mark}) + "\n"
        return "".join(json.dumps({"type": word, "object": item}) + "\n" for word, item in events)

    def _say(self, code: int, answer: Any) -> None:
        text = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        with suppress(ConnectionError):  # a watcher that was told enough
            for line in text.splitlines(keepends=True):
                self.wfile.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")
            self.wfile.write(b"0\r\n\r\n")

    def log_message(self, *arguments: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of connections that a test breaks."""


@contextmanager
def served(world: SimulatedCluster) -> Iterator[str]:
    """Serve a cluster on a free port; yields its address."""
    handler = type("Handler", (_Handler,), {"world": world, "lock": RLock()})
    server = _Server(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.005}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
