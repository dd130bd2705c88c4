"""One try of one request: bounded in time and bytes, with an exception for each kind of failure."""

from __future__ import annotations

import asyncio
import json
import time
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from components.contract.terminal import short_line

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession

MAX_BYTES = 16 << 20
"""Most bytes of an answer."""
SHOWN = 200
"""Characters of a server's own words in a message."""
AGAIN = frozenset({408, 409, 425, 429})
"""Statuses to retry, besides 5xx."""
MISCONFIGURED = frozenset({401, 402, 403, 404, 405, 407, 410})


class Failure(Exception):
    """A try that failed in a way that may pass on retry."""

    def __init__(self, reason: str, wait_seconds: float | None = None) -> None:
        super().__init__(reason)
        self.wait_seconds = wait_seconds
        """How long the server asks to wait."""


class Refusal(Exception):
    """The server refuses this request; retrying does not help."""


class Misconfigured(Exception):
    """No request can succeed: a wrong key, model or address."""


async def post(session: ClientSession, url: str, body: dict[str, Any], key: str | None, *, seconds: float) -> Any:
    """Return the JSON of an answer; raise Failure, Refusal or Misconfigured. Redirects are not followed, so that a key
    goes to no other server."""
    from aiohttp import ClientError

    headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    data = json.dumps(body, ensure_ascii=True, allow_nan=False).encode()
    try:
        async with (
            asyncio.timeout(seconds),
            session.post(url, data=data, headers=headers, allow_redirects=False, proxy=_proxy(url)) as response,
        ):
            text = await _bounded(response)
    except TimeoutError:
        raise Failure(f"no whole answer within {seconds:g} s") from None
    except (ClientError, OSError, ValueError) as error:
        raise Failure(_words(error)) from None
    return _judged(response, text, key)


async def _bounded(response: ClientResponse) -> bytes:
    parts, size = [], 0
    async for part in response.content.iter_any():
        size += len(part)
        if size > MAX_BYTES:
            response.close()
            raise Failure(f"its answer has more than {MAX_BYTES >> 20} MiB")
        parts.append(part)
    return b"".join(parts)


def _judged(response: ClientResponse, data: bytes, key: str | None) -> Any:
    status = response.status
    if 200 <= status < 300:
        try:
            return json.loads(data)
        except (ValueError, RecursionError):
            raise Failure("its answer is no JSON") from None
    said = f"{status} {said_by(data, key) or response.reason or ''}".strip()
    if status in AGAIN or status >= 500:
        raise Failure(said, retry_after(response.headers.get("Retry-After"), time.time()))
    if status in MISCONFIGURED or status < 400:
        raise Misconfigured(said)
    raise Refusal(said)


def retry_after(text: str | None, now: float) -> float | None:
    """Return the seconds that a Retry-After header asks for, a number or a date; None if it is neither."""
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (ValueError, OverflowError):
            return None
    return max(0.0, seconds) if seconds == seconds else None


def said_by(data: bytes, key: str | None) -> str:
    """Return a server's error message as one short printable line without the key."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    error = found.get("error", found) if isinstance(found, dict) else None
    message = error.get("message") if isinstance(error, dict) else error
    text = message if isinstance(message, str) else data[: 4 * SHOWN].decode(errors="replace")
    return short_line(without_key(text, key), SHOWN)


def without_key(text: str, key: str | None) -> str:
    """Return a text without the key, in case a server repeats it."""
    return text.replace(key, "[key]") if key else text


def _proxy(url: str) -> str | None:
    parts = urlsplit(url)
    return None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:SHOWN] or type(error).__name__
