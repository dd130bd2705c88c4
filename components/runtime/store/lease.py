"""A lock on S3: a lease object that its holder renews, and that anyone may take over once it expires.

Ages are measured by the server's clock alone (its Date header against the object's Last-Modified), so wrong
client clocks do no harm. A holder that was cut off for longer than the lease may find it taken over; that
costs only duplicate work, because commits are idempotent and records are written once.
"""

from __future__ import annotations

import json
import logging
import os
import random
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from components.contract.errors import StoreUnavailable
from components.runtime.store.blobs import StoreLocked
from components.runtime.store.s3_calls import MISSING, TAKEN, DamagedBody, S3Calls, code_of
from components.runtime.store.s3_google import version_of

LEASE_SECONDS = 30.0
RENEWALS_IN_A_LEASE = 4

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Seen:
    """A lease object as it is now."""

    owner: str
    holder: str
    beat: int
    version: str
    """What If-Match takes to mean this object."""
    age_seconds: float


class Lease:
    """One holder's view of a lease object."""

    def __init__(self, calls: S3Calls, key: str, seconds: float) -> None:
        self.calls = calls
        self.key = key
        self.seconds = seconds
        self.owner = uuid.uuid4().hex
        self.beat = 0
        self.version = ""

    def take(self) -> Seen | None:
        """Try once to take the lease: return None if it is ours now, else its current holder."""
        if self._write(IfNoneMatch="*"):
            return None
        seen = self.look()
        if seen is not None and seen.age_seconds > self.seconds and self._write(IfMatch=seen.version):
            return None
        return seen or Seen("", "another process", 0, "", 0.0)

    def renew(self) -> bool:
        """Extend the lease; False if it was taken over."""
        self.beat += 1
        return self._write(IfMatch=self.version)

    def release(self) -> None:
        """Remove the lease object if it is still ours."""
        seen = self.look()
        if seen is not None and seen.owner == self.owner:
            self.calls.run(lambda client: client.delete_object(Bucket=self.calls.bucket, Key=self.key))

    def look(self) -> Seen | None:
        """Return the lease object, or None if there is none."""
        from botocore.exceptions import ClientError

        def get(client: Any) -> Seen:
            answer = client.get_object(Bucket=self.calls.bucket, Key=self.key)
            now = parsedate_to_datetime(answer["ResponseMetadata"]["HTTPHeaders"]["date"])
            age = (now - answer["LastModified"]).total_seconds()
            body = answer["Body"].read()
            try:
                return Seen(**json.loads(body), version=version_of(answer), age_seconds=age)
            except (ValueError, TypeError) as error:
                raise DamagedBody(f"{self.key} is no lease") from error

        try:
            return self.calls.run(get)
        except ClientError as error:
            if code_of(error) in MISSING:
                return None
            raise

    def _write(self, **condition: str) -> bool:
        """Write the lease object under a condition; True if it is ours, even if the response was lost."""
        from botocore.exceptions import ClientError

        holder = f"process {os.getpid()} on {socket.gethostname()}"
        body = json.dumps({"owner": self.owner, "holder": holder, "beat": self.beat}).encode()
        request = {"Bucket": self.calls.bucket, "Key": self.key, "Body": body, **condition}
        try:
            self.version = version_of(self.calls.run(lambda client: client.put_object(**request)))
        except ClientError as error:
            if code_of(error) not in TAKEN | MISSING:
                raise
            seen = self.look()
            if seen is None or (seen.owner, seen.beat) != (self.owner, self.beat):
                return False
            self.version = seen.version
        return True


def lease_is_held(calls: S3Calls, key: str, lease_seconds: float = LEASE_SECONDS) -> bool:
    """Return whether the lease at `key` is recent enough that its holder may be alive."""
    seen = Lease(calls, key, lease_seconds).look()
    return seen is not None and seen.age_seconds <= lease_seconds


@contextmanager
def hold_lease(
    calls: S3Calls, key: str, name: str, wait_seconds: float, lease_seconds: float = LEASE_SECONDS
) -> Iterator[None]:
    """Hold the lease at `key` and renew it in the background; raise StoreLocked if it is not free in time."""
    lease = Lease(calls, key, lease_seconds)
    deadline = time.monotonic() + wait_seconds
    while seen := lease.take():
        if time.monotonic() >= deadline:
            raise StoreLocked(
                f"{name}: locked by {seen.holder} (s3://{calls.bucket}/{key}), waited {wait_seconds:.0f} s. "
                f"Wait for it or stop it; the lock is freed {lease_seconds:.0f} s after it ended."
            )
        time.sleep(random.uniform(0.1, 0.5))
    ended = threading.Event()
    renewer = threading.Thread(target=_renew, args=(lease, ended), name=f"lease {name}", daemon=True)
    renewer.start()
    try:
        yield
    finally:
        ended.set()
        renewer.join()
        _release(lease)


def _release(lease: Lease) -> None:
    try:
        lease.release()
    except StoreUnavailable as error:  # the work is done, and the lease will expire
        logger.warning("the lock %s could not be freed: %s", lease.key, error)


def _renew(lease: Lease, ended: threading.Event) -> None:
    while not ended.wait(lease.seconds / RENEWALS_IN_A_LEASE):
        try:
            if not lease.renew():
                logger.warning("the lock %s was taken over: the store was out of reach", lease.key)
                return
        except StoreUnavailable as error:
            logger.warning("the lock %s could not be renewed yet: %s", lease.key, error)
