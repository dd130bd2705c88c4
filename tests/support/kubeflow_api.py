"""The part of Kubeflow Pipelines' v2beta1 API that runs and recurring runs need, over real HTTP.

Runs either do what a test says, or are carried out by pipeline_runner, container by container.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.pipeline_runner import PipelineRun

_RUN = re.compile(r"/apis/v2beta1/runs/(?P<id>[^/:]+)(?::(?P<verb>terminate|retry))?")
_RECURRING = re.compile(r"/apis/v2beta1/recurringruns/(?P<id>[^/:]+)(?::(?P<verb>enable|disable))?")
_ENDED = ("SUCCEEDED", "FAILED", "CANCELED", "SKIPPED", "ERROR")


@dataclass
class ServedRun:
    """One run as the API shows it."""

    body: dict[str, Any]
    state: str = "PENDING"
    error: str = ""
    running: list[str] = field(default_factory=list)
    verbs: list[str] = field(default_factory=list)
    """What was asked to be done to it."""
    on_terminate: str = "CANCELED"
    """The state in which stopping it ends."""
    work: PipelineRun | None = None
    thread: Thread | None = None

    def shown(self) -> dict[str, Any]:
        """Return the run as JSON."""
        names, state = self.running, self.state
        if self.work is not None:
            names = [task.name for task in self.work.tasks.values() if task.state == "RUNNING"]
            alive = self.thread is not None and self.thread.is_alive()
            going = "CANCELING" if self.work.stop.is_set() else "RUNNING"
            state = going if alive or self.work.state not in _ENDED else self.work.state
        details = [{"display_name": name, "state": "RUNNING"} for name in names]
        error = {"error": {"code": 2, "message": self.error}} if self.error else {}
        return {**self.body, "state": state, "run_details": {"task_details": details}, **error}


@dataclass
class KubeflowApi:
    """Runs by id, experiments by name, and what was asked."""

    folder: Path
    carry_out: bool = False
    """Whether runs are really carried out."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables of the containers, as a cluster's Secrets and ConfigMaps give them."""
    runs: dict[str, ServedRun] = field(default_factory=dict)
    experiments: dict[str, str] = field(default_factory=dict)
    tokens: list[str | None] = field(default_factory=list)
    recurring: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Recurring runs by id, as the API shows them."""
    page_size: int = 100
    """Most recurring runs in one answer, whatever was asked for."""
    verbs: list[tuple[str, str]] = field(default_factory=list)
    """What was asked to be done to recurring runs, and to which."""
    broken: list[int] = field(default_factory=list)
    """Status codes with which the next requests for a run are refused, first one first."""
    token: str | None = None
    """The one token that is good now; None takes all."""
    lose_answers: int = 0
    """How many of the next runs are started without an answer: the connection breaks."""
    url: str = ""

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        """Return status and body of one request."""
        if path == "/apis/v2beta1/healthz":
            return 200, {"multi_user": False}
        if path == "/apis/v2beta1/experiments":
            return self._experiments(method, query, body)
        if path == "/apis/v2beta1/runs":
            return (200, self._start(body)) if method == "POST" else (200, self._runs(query))
        if path.startswith("/apis/v2beta1/recurringruns"):
            return self._recurring(method, path, query, body)
        found = _RUN.fullmatch(path)
        if found is None or found["id"] not in self.runs:
            return 404, {"error": f"{unquote(path)} not found", "code": 5}
        if self.broken:
            return self.broken.pop(0), {"error": "as the test wants it"}
        run = self.runs[found["id"]]
        if found["verb"] is None:
            return 200, run.shown()
        run.verbs.append(found["verb"])
        return self._terminate(run) if found["verb"] == "terminate" else self._retry(run)

    def _experiments(self, method: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if method == "POST":
            name = body["display_name"]
            self.experiments[name] = f"experiment-{len(self.experiments)}"
            return 200, {"experiment_id": self.experiments[name], "display_name": name}
        wanted = json.loads(query["filter"][0])["predicates"][0]
        name = wanted.get("stringValue") or wanted["string_value"]
        known = self.experiments.get(name)
        return 200, {"experiments": [{"experiment_id": known, "display_name": name}] if known else []}

    def _recurring(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if self.broken:
            return self.broken.pop(0), {"error": "as the test wants it"}
        found = _RECURRING.fullmatch(path)
        if found is None:
            return self._create(body) if method == "POST" else self._list(query)
        name, verb = found["id"], found["verb"] or method.lower()
        self.verbs.append((verb, name))
        if name not in self.recurring:
            return 404, {"error": f"{name} not found", "code": 5}
        if verb == "delete":
            del self.recurring[name]
        elif verb in ("enable", "disable"):
            self.recurring[name] |= {"mode": verb.upper(), "status": f"{verb.upper()}D"}
        return 200, self.recurring.get(name, {})

    def _create(self, body: Any) -> tuple[int, Any]:
        name = f"recurring-{len(self.verbs)}"
        self.verbs.append(("create", name))
        self.recurring[name] = {**body, "recurring_run_id": name, "status": "ENABLED"}
        return 200, self.recurring[name]

    def _list(self, query: dict[str, list[str]]) -> tuple[int, Any]:
        start = int((query.get("page_token") or ["0"])[0] or 0)
        size = min(int((query.get("page_size") or ["10"])[0]), self.page_size)
        listed = list(self.recurring.values())
        more = {"next_page_token": str(start + size)} if len(listed) > start + size else {}
        return 200, {"recurringRuns": listed[start : start + size], "total_size": len(listed), **more}

    def _runs(self, query: dict[str, list[str]]) -> Any:
        assert query["sort_by"] == ["created_at desc"]
        wanted = query.get("experiment_id", [None])[0]
        listed = [run.shown() for run in reversed(self.runs.values()) if run.body["experiment_id"] == wanted]
        return {"runs": listed[: int(query["page_size"][0])]}

    def _start(self, body: Any) -> Any:
        run_id = str(uuid.UUID(int=len(self.runs) + 1))
        run = ServedRun({**body, "run_id": run_id, "created_at": "2026-11-21T12:00:00Z"})
        self.runs[run_id] = run
        if self.carry_out:
            spec = body["pipeline_spec"]
            given = body.get("runtime_config", {}).get("parameters", {})
            spec = spec.get("pipeline_spec", spec)
            run.work = PipelineRun(spec, self.folder, run_id, given, environment=self.environment)
            self._go(run)
        return run.shown()

    def _go(self, run: ServedRun) -> None:
        assert run.work is not None
        run.thread = Thread(target=run.work.run, daemon=True)
        run.thread.start()

    def _terminate(self, run: ServedRun) -> tuple[int, Any]:
        if run.work is not None:
            run.work.terminate()
        else:
            run.state = run.on_terminate
        return 200, {}

    def _retry(self, run: ServedRun) -> tuple[int, Any]:
        if run.shown()["state"] not in ("FAILED", "CANCELED"):
            return 400, {"error": "only a run that failed can be retried"}
        if run.work is not None:
            run.work.stop.clear()
            self._go(run)
        else:
            run.state = "RUNNING"
        return 200, {}


@contextmanager
def kubeflow_api(folder: Path, **options: Any) -> Iterator[KubeflowApi]:
    """Serve an empty API on a free port."""
    api = KubeflowApi(folder, **options)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _any(self) -> None:
            parts = urlsplit(self.path)
            api.tokens.append(self.headers.get("Authorization"))
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if api.token is not None and self.headers.get("Authorization") != f"Bearer {api.token}":
                status, answer = 401, {"error": "the token has expired"}
            else:
                status, answer = self._known(parts, body)
            if self.command == "POST" and parts.path.endswith("/runs") and api.lose_answers:
                api.lose_answers -= 1
                self.close_connection = True
                return
            self._say(status, answer)

        def _known(self, parts: Any, body: bytes) -> tuple[int, Any]:
            return api.answer(self.command, parts.path, parse_qs(parts.query), json.loads(body or "null"))

        def _say(self, status: int, answer: Any) -> None:
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_DELETE = _any

        def log_message(self, *arguments: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    api.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield api
    finally:
        for run in api.runs.values():
            if run.work is not None:
                run.work.terminate()
                assert run.thread is not None
                run.thread.join()
        server.shutdown()
        thread.join()
        server.server_close()
