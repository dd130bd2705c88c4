"""The channel between a process and its sandbox: requests followed by a nonce, replies that begin with it.

A request is a length, a JSON body and 16 random bytes. The server reads the nonce only after it has forked the run,
so no run ever holds the nonce of its own reply, and those of others are used up.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from typing import Any

NONCE_BYTES = 16
HEAD = struct.Struct("!I")
MAX_REQUEST = 64 << 20
CHUNK = 1 << 16


class ChannelClosed(Exception):
    """The other side is gone."""


class ChannelSilent(Exception):
    """The other side did not reply in time."""


class ProtocolError(Exception):
    """The other side sent an invalid frame."""


def frame(body: dict[str, Any]) -> bytes:
    """Return a request's bytes without its nonce; TypeError or ValueError if it is not JSON or too large."""
    try:
        raw = json.dumps(body).encode()
    except RecursionError:
        raise ValueError("the argument is nested too deep") from None
    if len(raw) > MAX_REQUEST:
        raise ValueError(f"an argument of {len(raw)} bytes; at most {MAX_REQUEST} go in")
    return HEAD.pack(len(raw)) + raw


def read_exactly(descriptor: int, count: int, deadline: float | None = None) -> bytes:
    """Return exactly `count` bytes and read none beyond them; `deadline` is on the monotonic clock."""
    parts: list[bytes] = []
    missing = count
    while missing:
        if deadline is not None:
            _wait(descriptor, select.POLLIN, deadline)
        chunk = os.read(descriptor, min(missing, CHUNK))
        if not chunk:
            raise ChannelClosed
        parts.append(chunk)
        missing -= len(chunk)
    return b"".join(parts)


def read_request(descriptor: int) -> dict[str, Any]:
    """Return the next request's body; its nonce stays in the pipe."""
    (size,) = HEAD.unpack(read_exactly(descriptor, HEAD.size))
    if size > MAX_REQUEST:
        raise ProtocolError("a request beyond the bound")
    return json.loads(read_exactly(descriptor, size))


def write_all(descriptor: int, data: bytes, deadline: float | None = None) -> None:
    """Write all bytes; with a deadline, the descriptor must be non-blocking."""
    view = memoryview(data)
    while view:
        if deadline is not None:
            _wait(descriptor, select.POLLOUT, deadline)
        try:
            view = view[os.write(descriptor, view) :]
        except BlockingIOError:
            continue
        except BrokenPipeError:
            raise ChannelClosed from None


def pack_reply(nonce: bytes, head: dict[str, Any], value: bytes = b"", stdout: bytes = b"") -> bytes:
    """Return a reply's bytes: the nonce, the sizes of three parts, and the parts."""
    raw = json.dumps(head).encode()
    return nonce + HEAD.pack(len(raw)) + HEAD.pack(len(value)) + HEAD.pack(len(stdout)) + raw + value + stdout


def read_reply(descriptor: int, nonce: bytes, most: int, deadline: float) -> tuple[dict[str, Any], bytes, bytes]:
    """Return a reply's head, value and stdout; ProtocolError for a wrong nonce or parts beyond `most` bytes."""
    start = read_exactly(descriptor, NONCE_BYTES + 3 * HEAD.size, deadline)
    if start[:NONCE_BYTES] != nonce:
        raise ProtocolError("a reply to no request")
    sizes = [HEAD.unpack_from(start, NONCE_BYTES + place * HEAD.size)[0] for place in range(3)]
    if max(sizes) > most:
        raise ProtocolError("a reply beyond the bound")
    head, value, stdout = (read_exactly(descriptor, size, deadline) for size in sizes)
    try:
        return json.loads(head), value, stdout
    except ValueError:
        raise ProtocolError("a reply that is no JSON") from None


def _wait(descriptor: int, event: int, deadline: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
        raise ChannelSilent
