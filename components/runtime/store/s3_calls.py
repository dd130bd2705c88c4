"""Calls to S3: one client per process, bounded retries, and errors with advice."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from components.contract.errors import InputError, StoreUnavailable
from components.runtime.store.s3_advice import what_to_do
from components.runtime.store.s3_google import client_settings, is_google, speak_google

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

T = TypeVar("T")

PATIENCE_SECONDS = 20.0
"""How long one operation is tried, at least twice, before the store counts as unavailable."""
CONNECT_SECONDS = 5.0
READ_SECONDS = 20.0
ATTEMPTS_FOR_A_PART = 5
"""botocore's own retries, for the parts of a large file; `run` retries whole operations."""
TRIES_OF_A_DAMAGED_BODY = 5
POOL = 16
ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
MISSING = {"404", "NoSuchKey", "NotFound"}
TAKEN = {"412", "PreconditionFailed"}
TRANSIENT = {
    "BadDigest", "ConditionalRequestConflict", "IncompleteBody", "InternalError", "OperationAborted", "RequestTimeout",
    "RequestTimeTooSkewed", "ServiceUnavailable", "SlowDown", "Throttling", "XAmzContentSHA256Mismatch",
    "XAmzContentChecksumMismatch",
}  # fmt: skip


class DamagedBody(Exception):
    """A response body is not what was requested; a retry usually helps."""


class S3Calls:
    """Runs operations on one bucket's client. boto3 is imported at the first call, not before."""

    def __init__(
        self,
        bucket: str,
        uri: str,
        *,
        what: str = "store",
        patience_seconds: float = PATIENCE_SECONDS,
        read_seconds: float = READ_SECONDS,
    ) -> None:
        """`what` and `uri` name the target in messages."""
        self.bucket = bucket
        self.uri = uri
        self.what = what
        self.patience_seconds = patience_seconds
        self.read_seconds = read_seconds
        self._clients: dict[tuple[int, int], Any] = {}

    @property
    def client(self) -> Any:
        """Return this process's boto3 client."""
        return self._client_with(attempts=1)

    def run(self, operation: Callable[[Any], T], *, in_parts: bool = False) -> T:
        """Return operation(client), retried after transient failures until patience ends.

        `in_parts` is for transfers of many requests, each of which is then first retried individually.

        Raises StoreUnavailable; ClientError for responses that are not failures (missing, taken); and DamagedBody if
        the bytes remain wrong.
        """
        client = self._client_with(attempts=ATTEMPTS_FOR_A_PART if in_parts else 1)
        deadline = time.monotonic() + self.patience_seconds
        attempt = 0
        while True:
            attempt += 1
            try:
                return operation(client)
            except _failures() as error:
                kind = _kind(error)
                if kind == "answer":
                    raise
                if kind == "damage" and attempt >= TRIES_OF_A_DAMAGED_BODY:
                    raise DamagedBody(str(error)) from error
                if kind == "permanent" or (attempt > 1 and time.monotonic() > deadline):
                    raise self._unavailable(error) from error
            time.sleep(random.uniform(0.02, min(0.05 * 2**attempt, 2.0)))

    def _client_with(self, attempts: int) -> Any:
        key = (os.getpid(), attempts)  # a forked child must not share its parent's sockets
        if key not in self._clients:
            self._clients[key] = _new_client(self.read_seconds, attempts)
        return self._clients[key]

    def _unavailable(self, error: Exception) -> StoreUnavailable:
        endpoint = self.client.meta.endpoint_url
        told = " ".join(str(error).split())
        return StoreUnavailable(
            f"{self.what} {self.uri}: bucket {self.bucket!r} at {endpoint} could not be used: {told.rstrip('.')}. "
            f"{what_to_do(error)}"
        )


def code_of(error: ClientError) -> str:
    """Return S3's error code, such as NoSuchKey; the HTTP status for a response without body."""
    return str(error.response.get("Error", {}).get("Code", ""))


@cache
def _failures() -> tuple[type[Exception], ...]:
    from boto3.exceptions import Boto3Error
    from botocore.exceptions import BotoCoreError, ClientError

    return (ClientError, BotoCoreError, Boto3Error, ConnectionError, DamagedBody)


def _kind(error: Exception) -> Literal["answer", "damage", "permanent", "transient"]:
    """Distinguish responses that the caller handles from transient, permanent and damage failures."""
    from botocore.exceptions import ClientError, FlexibleChecksumError, NoCredentialsError, PartialCredentialsError

    if isinstance(error, DamagedBody | FlexibleChecksumError):
        return "damage"
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code_of(error) in MISSING | TAKEN:
            return "answer"
        return "transient" if status >= 500 or status == 429 or code_of(error) in TRANSIENT else "permanent"
    return "permanent" if isinstance(error, NoCredentialsError | PartialCredentialsError) else "transient"


def _new_client(read_seconds: float, attempts: int) -> Any:
    import boto3
    from botocore.config import Config

    endpoint = next((os.environ[name] for name in ENDPOINT_VARIABLES if os.environ.get(name)), "")
    google = is_google(endpoint)
    config = Config(
        retries={"mode": "standard", "total_max_attempts": attempts},
        connect_timeout=CONNECT_SECONDS,
        read_timeout=read_seconds,
        max_pool_connections=POOL,
        # servers other than AWS's seldom serve bucket.host names
        s3={"addressing_style": "path" if endpoint else "auto"},
        **(client_settings() if google else {}),
    )
    try:
        client = boto3.session.Session().client("s3", config=config)
        return speak_google(client) if google else client
    except ValueError as error:
        hint = "expected a URL in AWS_ENDPOINT_URL, such as http://host:9000"
        raise InputError(f"S3 client: {error} ({hint}, and a known region in AWS_DEFAULT_REGION)") from None
