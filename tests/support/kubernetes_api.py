"""The part of the Kubernetes API that pods need, over real HTTP: a test says how they end."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Condition, Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

Pod = dict[str, Any]
_PODS = re.compile(r"/api/v1/namespaces/(?P<namespace>[^/]+)/pods(?:/(?P<name>[^/]+))?(?P<log>/log)?")


@dataclass
class KubernetesApi:
    """Pods by name, and what was done to them."""

    pods: dict[str, Pod] = field(default_factory=dict)
    logs: dict[str, str] = field(default_factory=dict)
    created: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)
    """Status codes with which the next requests are refused, first one first."""
    changed: Condition = field(default_factory=Condition)
    url: str = ""

    def end(self, name: str, code: int, *, log: str = "", reason: str = "", message: str = "", pod: str = "") -> None:
        """End a pod's container; `reason` and `message` are its own, `pod` is the reason of the pod as a whole."""
        ended = {"exitCode": code, "reason": reason or ("Completed" if code == 0 else "Error"), "message": message}
        self.logs[name] = log
        self._status(name, "Succeeded" if code == 0 else "Failed", {"terminated": ended})
        if pod:
            self.pods[name]["status"] |= {"reason": pod, "message": "as the test wants it"}

    def start(self, name: str) -> None:
        """Let a pod's container run."""
        self._status(name, "Running", {"running": {"startedAt": "2026-11-21T12:00:00Z"}})

    def hold(self, name: str, reason: str) -> None:
        """Let a pod wait for what never comes, such as an image."""
        self._status(name, "Pending", {"waiting": {"reason": reason, "message": "as the test wants it"}})

    def _status(self, name: str, phase: str, state: dict[str, Any]) -> None:
        container = self.pods[name]["spec"]["containers"][0]
        seen = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
        scheduled = {"type": "PodScheduled", "status": "True"}
        ready = "running" in state
        statuses = [{**seen, "ready": ready, "state": state}]
        with self.changed:
            self.pods[name]["status"] = {"phase": phase, "conditions": [scheduled], "containerStatuses": statuses}
            self.changed.notify_all()

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        """Return status and body of one request."""
        if self.broken:
            return self.broken.pop(0), {"kind": "Status", "status": "Failure", "reason": "AsTheTestWantsIt"}
        found = _PODS.fullmatch(path)
        if found is None:
            return 200, {"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": []}
        name = found["name"]
        if method == "POST":
            name = body["metadata"]["name"]
            self.pods[name] = {**body, "status": {"phase": "Pending"}}
            self.created.append(name)
            return 201, self.pods[name]
        if name is None:
            chosen = [pod for pod in self.pods.values() if _selected(pod, query.get("labelSelector", [""])[0])]
            return 200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": chosen}
        if name not in self.pods:
            return 404, {"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}
        if found["log"]:
            return 200, self._log(name, query)
        if method == "PATCH":
            self.pods[name]["metadata"]["labels"] |= body["metadata"]["labels"]
        if method == "DELETE":
            self.deleted.append(name)
            return 200, self.pods.pop(name)
        return 200, self.pods[name]

    def _log(self, name: str, query: dict[str, list[str]]) -> str:
        """Return a log; one that is followed is told when its container has ended, as timed lines if so wanted."""
        if query.get("follow") == ["true"]:
            with self.changed:
                self.changed.wait_for(lambda: self.pods.get(name, {}).get("status", {}).get("phase") in _OVER, 60)
        lines = self.logs.get(name, "").splitlines(keepends=True)
        timed = query.get("timestamps") == ["true"]
        return "".join(f"2026-11-21T12:00:{i:02}.5Z {line}" if timed else line for i, line in enumerate(lines))


_OVER = (None, "Succeeded", "Failed")


def _selected(pod: Pod, selector: str) -> bool:
    labels = pod["metadata"]["labels"]
    for part in filter(None, selector.split(",")):
        if part.startswith("!"):
            holds = part[1:] not in labels
        elif "!=" in part:
            key, value = part.split("!=")
            holds = labels.get(key) != value
        else:
            key, value = part.split("=")
            holds = labels.get(key) == value
        if not holds:
            return False
    return True


@contextmanager
def kubernetes_api(folder: Path) -> Iterator[KubernetesApi]:
    """Serve an empty API on a free port; `folder`/kubeconfig points to it."""
    api = KubernetesApi()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, answer = api.answer(self.command, parts.path, parse_qs(parts.query), json.loads(body or "null"))
            text = answer.encode() if isinstance(answer, str) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/plain" if isinstance(answer, str) else "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            with suppress(ConnectionError):  # a watcher that was told enough
                self.wfile.write(text)

        do_GET = do_POST = do_PATCH = do_DELETE = _any

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_port}"
    cluster = {"name": "test", "cluster": {"server": api.url}}
    context = {"name": "test", "context": {"cluster": "test", "user": "test"}}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [cluster],
        "contexts": [context],
        "users": [{"name": "test", "user": {"token": "test"}}],
        "current-context": "test",
    }
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
