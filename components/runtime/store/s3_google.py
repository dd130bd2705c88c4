"""Google Cloud Storage behind the S3 client: its XML API in Google's own words, with tokens of the workload's identity.

Asked in Amazon's words, Google answers and yet does not do what is asked: it ignores If-None-Match and If-Match where
something is written, so that two writers both win, and drops metadata named x-amz-meta-*. So requests are rewritten:

    If-None-Match: *         x-goog-if-generation-match: 0
    If-Match: VERSION        x-goog-if-generation-match: VERSION, which is x-goog-generation of an earlier answer
    x-amz-meta-*, -copy-*    x-goog-meta-*, x-goog-copy-*
    x-amz-checksum-sha256    Content-MD5, which Google checks; a SHA-256 it does not know
    a signature              Authorization: Bearer, a token of google.auth; no key is stored

Sources: Google's "Request preconditions" (If-Match and If-None-Match are for reading) and "HTTP headers for XML API".
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import MutableMapping
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from components.contract.artifacts import CHUNK_BYTES
from components.contract.errors import StoreUnavailable

HOST = "storage.googleapis.com"
DIALECT = "POSTTRAIN_S3_DIALECT"
"""Variable that says `google` where the endpoint is another address of Google's, such as one of a private network."""
SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
GENERATION = "x-goog-generation"
ONLY_IF = "x-goog-if-generation-match"
KEPT = ("meta-", "copy-source", "metadata-directive")
"""Parts of names that Google has too, behind x-goog- in the place of x-amz-."""

Headers = MutableMapping[str, Any]


def is_google(endpoint: str) -> bool:
    """Return whether an endpoint is Google's."""
    return os.environ.get(DIALECT) == "google" or urlsplit(endpoint).hostname == HOST


def client_settings() -> dict[str, Any]:
    """Return what a client's Config needs: no signature, and no checksum of Amazon's."""
    from botocore import UNSIGNED

    return {
        "signature_version": UNSIGNED,
        "request_checksum_calculation": "when_required",
        "response_checksum_validation": "when_required",
    }


def speak_google(client: Any) -> Any:
    """Return a client whose requests and answers are rewritten from now on."""
    events = client.meta.events
    events.register("before-call.s3", _rewrite)
    events.register("before-send.s3", _authorize)
    events.register_first("before-parse.s3", _read)
    return client


def version_of(answer: dict[str, Any]) -> str:
    """Return what If-Match takes to mean the object of an answer: Google's generation, else the ETag."""
    headers = answer["ResponseMetadata"]["HTTPHeaders"]
    return str(headers.get(GENERATION) or answer["ETag"])


def _rewrite(params: dict[str, Any], model: Any, **_: Any) -> None:
    """Put a request into Google's words before it is sent."""
    headers = params["headers"]
    params.get("context", {}).pop("checksum", None)  # neither a header nor a trailer of Amazon's
    if model.name == "PutObject":
        _make_conditional(headers)
    body_counts = model.name in ("PutObject", "UploadPart", "DeleteObjects")
    if body_counts and "Content-MD5" not in headers:
        headers["Content-MD5"] = _md5(params["body"])
    for name in list(headers):
        if name.lower().startswith("x-amz-"):
            value, rest = headers.pop(name), name.lower().removeprefix("x-amz-")
            if rest.startswith(KEPT) and not rest.startswith("copy-source-"):
                headers[f"x-goog-{rest}"] = value


def _make_conditional(headers: Headers) -> None:
    if headers.pop("If-None-Match", None) is not None:
        headers[ONLY_IF] = "0"
    if (version := headers.pop("If-Match", None)) is not None:
        headers[ONLY_IF] = str(version).strip('"')


def _md5(body: Any) -> str:
    """Return the Content-MD5 of a body: bytes, or a file, which is read twice."""
    found = hashlib.md5(usedforsecurity=False)
    if isinstance(body, str | bytes | bytearray):
        found.update(body.encode() if isinstance(body, str) else body)
    else:
        start = body.tell()
        for chunk in iter(lambda: body.read(CHUNK_BYTES), b""):
            found.update(chunk)
        body.seek(start)
    return base64.b64encode(found.digest()).decode()


def _authorize(request: Any, **_: Any) -> None:
    """Give a request the token of the workload's identity, renewed when it expires."""
    request.headers["Authorization"] = f"Bearer {_token()}"


def _read(response_dict: dict[str, Any], **_: Any) -> None:
    """Let the client find metadata in an answer of Google's."""
    headers = response_dict["headers"]
    for name in [name for name in headers if name.lower().startswith("x-goog-meta-")]:
        headers[f"x-amz-meta-{name.lower().removeprefix('x-goog-meta-')}"] = headers[name]


def _token() -> str:
    """Return a token that is valid now; raise StoreUnavailable where there is no identity."""
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import Request

    try:
        identity = _identity()
        if not identity.valid:
            identity.refresh(Request())
    except GoogleAuthError as error:
        told = " ".join(str(error).split())
        raise StoreUnavailable(
            f"Google Cloud Storage: there is no identity to read or write as: {told.rstrip('.')}. In a pod, its "
            "service account needs workload identity (infra/terraform/gcp); elsewhere run "
            "gcloud auth application-default login."
        ) from None
    return str(identity.token)


@cache
def _identity() -> Any:
    import google.auth

    return google.auth.default(scopes=[SCOPE])[0]
