"""The Hugging Face hub for datasets, on the loopback: what its client asks for a repository of files, and no more."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Hub(BaseHTTPRequestHandler):
    """Answers for one dataset; `files` maps a path in its repository to its bytes."""

    name: str
    files: Mapping[str, bytes]
    asked: list[str]

    def do_HEAD(self) -> None:
        """As GET, without the body."""
        self._answer(body=False)

    def do_GET(self) -> None:
        """Answer with the dataset's description, a listing or a file."""
        self._answer(body=True)

    def do_POST(self) -> None:
        """Describe the paths that the client asks for, or all of them."""
        text = self.rfile.read(int(self.headers.get("content-length", 0))).decode()
        self.asked.append(f"POST {self.path}")
        self._send(json.dumps([_entry(path, data) for path, data in self.files.items() if path in unquote(text)]))

    def _answer(self, *, body: bool) -> None:
        self.asked.append(f"{self.command} {self.path}")
        path = unquote(urlsplit(self.path).path)
        about, files = f"/api/datasets/{self.name}", f"/datasets/{self.name}/resolve/"
        if path.startswith(files):
            revision, _, name = path.removeprefix(files).partition("/")
            found = self.files.get(name) if revision in ("main", COMMIT) else None
            self._send(found, body=body, kind="application/octet-stream")
        elif path.startswith(f"{about}/tree/"):
            self._send(json.dumps(self._listing(path.removeprefix(f"{about}/tree/").partition("/")[2])))
        elif path in (about, f"{about}/revision/main", f"{about}/revision/{COMMIT}"):
            siblings = [{"rfilename": name} for name in self.files]
            self._send(json.dumps({"id": self.name, "sha": COMMIT, "siblings": siblings, "tags": [], "private": False}))
        else:
            self._send(None)

    def _listing(self, folder: str) -> list[dict[str, Any]]:
        """Return what lies directly in a folder, its folders first."""
        top = f"{folder}/" if folder else ""
        inside = {name.removeprefix(top): data for name, data in self.files.items() if name.startswith(top)}
        folders = sorted({name.partition("/")[0] for name in inside if "/" in name})
        files = [_entry(top + name, data) for name, data in inside.items() if "/" not in name]
        return [*({"type": "directory", "path": top + name, "size": 0, "oid": COMMIT} for name in folders), *files]

    def _send(self, data: str | bytes | None, *, body: bool = True, kind: str = "application/json") -> None:
        found = (data or "").encode() if isinstance(data, str | None) else data
        self.send_response(404 if data is None else 200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(found)))
        self.send_header("etag", f'"{hashlib.sha1(found).hexdigest()}"')
        self.send_header("x-repo-commit", COMMIT)
        if data is None:
            self.send_header("x-error-code", "EntryNotFound")
        self.end_headers()
        if body:
            self.wfile.write(found)

    def log_message(self, format: str, *args: Any) -> None:
        """Be quiet."""


def _entry(path: str, data: bytes) -> dict[str, Any]:
    return {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}


@contextmanager
def hub_of(name: str, files: Mapping[str, bytes]) -> Iterator[tuple[str, list[str]]]:
    """Serve one dataset; yield the address for HF_ENDPOINT and the requests so far."""
    asked: list[str] = []
    handler = type("Hub", (_Hub,), {"name": name, "files": files, "asked": asked})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()
