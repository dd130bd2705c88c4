"""Google Cloud Storage's XML API in front of a local S3 server, where it differs from Amazon's.

It asks for a token, ignores preconditions of Amazon's where something is written, and drops headers named x-amz-*. It
keeps generations, obeys x-goog-if-generation-match, refuses bodies in Amazon's chunks, and checks Content-MD5.
"""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qs

from tests.support.s3_rights import App

TOKEN = "a-token-of-google"
ERROR = "<?xml version='1.0'?><Error><Code>{}</Code><Message>{}</Message></Error>"


class Google:
    """An application of S3 that speaks as Google does."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.last = 1_700_000_000_000_000
        self.generations: dict[str, int] = {}
        self.seen: list[dict[str, Any]] = []

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        if method == "PUT" and path.count("/") == 1:  # the test makes its bucket
            return self.app(environ, start_response)
        self.seen.append({name: value for name, value in environ.items() if name.startswith("HTTP_")})
        if environ.get("HTTP_AUTHORIZATION") != f"Bearer {TOKEN}":
            return _refuse(start_response, "401 Unauthorized", "AuthenticationRequired")
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = io.BytesIO(body)
        if "aws-chunked" in environ.get("HTTP_CONTENT_ENCODING", ""):
            return _refuse(start_response, "400 Bad Request", "InvalidArgument")
        if (told := environ.get("HTTP_CONTENT_MD5")) and told != base64.b64encode(hashlib.md5(body).digest()).decode():
            return _refuse(start_response, "400 Bad Request", "BadDigest")
        if method == "PUT" and "partNumber" not in query:
            wanted = environ.pop("HTTP_X_GOOG_IF_GENERATION_MATCH", None)
            if wanted is not None and int(wanted) != self.generations.get(path, 0):
                return _refuse(start_response, "412 Precondition Failed", "PreconditionFailed")
        if method in ("PUT", "POST") and "partNumber" in query and "HTTP_X_GOOG_COPY_SOURCE" in environ:
            return _refuse(start_response, "501 Not Implemented", "NotImplemented")
        return self._pass_on(environ, start_response, method, path, query)

    def _pass_on(
        self, environ: dict[str, Any], start_response: Callable[..., Any], method: str, path: str, query: dict[str, Any]
    ) -> Iterable[bytes]:
        """Let Amazon's server do it, without Amazon's headers and with Google's in their place."""
        for name in [name for name in environ if name.startswith("HTTP_X_AMZ_")]:
            del environ[name]
        if method != "GET":
            environ.pop("HTTP_IF_MATCH", None), environ.pop("HTTP_IF_NONE_MATCH", None)
        for name in [name for name in environ if name.startswith("HTTP_X_GOOG_")]:
            environ[name.replace("X_GOOG", "X_AMZ")] = environ.pop(name)

        def answer(status: str, headers: list[tuple[str, str]], *rest: Any) -> Any:
            if status.startswith("2") and "partNumber" not in query and (method == "PUT" or "uploadId" in query):
                self.last += 1
                self.generations[path] = self.last
            if status.startswith("2") and method == "DELETE":
                self.generations.pop(path, None)
            own = [(name.lower().replace("x-amz-meta-", "x-goog-meta-"), value) for name, value in headers]
            own = [(name, value) for name, value in own if not name.startswith("x-amz-")]
            if path in self.generations:
                own.append(("x-goog-generation", str(self.generations[path])))
            return start_response(status, own, *rest)

        return self.app(environ, answer)


def _refuse(start_response: Callable[..., Any], status: str, code: str) -> list[bytes]:
    start_response(status, [("Content-Type", "application/xml")])
    return [ERROR.format(code, "no").encode()]
