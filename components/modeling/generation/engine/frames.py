"""Messages between a stage and its engine: a JSON header and plain arrays, so that reading executes nothing.

A frame is MAGIC, the header's bytes (uint32) and the payload's (uint64), both little-endian, the header in JSON, and
the arrays end to end. The header's "arrays" lists [name, dtype, shape] in the order of the payload.
"""

from __future__ import annotations

import json
import math
import socket
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

MAGIC = b"PTF1"
MAX_HEADER = 1 << 24
_LENGTHS = struct.Struct("<IQ")
_DTYPES = ("int32", "int64", "float32", "bool")

Header = dict[str, Any]
Arrays = dict[str, np.ndarray]


class ChannelClosed(ConnectionError):
    """The other side has ended."""


class ChannelStalled(ChannelClosed):
    """The other side has stopped in the middle of a message, for longer than the channel's timeout."""


class BadFrame(ValueError):
    """The received bytes are not a frame."""


def send(channel: socket.socket, header: Header, arrays: Mapping[str, np.ndarray] | None = None) -> None:
    """Write one frame; raises ChannelClosed when the other side has ended."""
    found = {name: np.asarray(array, order="C") for name, array in (arrays or {}).items()}
    for name, array in found.items():
        if array.dtype.name not in _DTYPES:
            raise BadFrame(f"array {name!r} is {array.dtype.name}; a frame holds {', '.join(_DTYPES)}")
    listed = [[name, array.dtype.name, list(array.shape)] for name, array in found.items()]
    text = json.dumps({**header, "arrays": listed}).encode()
    payload = sum(array.nbytes for array in found.values())
    try:
        channel.sendall(MAGIC + _LENGTHS.pack(len(text), payload) + text)
        for array in found.values():
            channel.sendall(array.reshape(-1).view(np.uint8).data)
    except TimeoutError as error:
        raise ChannelStalled(str(error)) from error
    except OSError as error:
        raise ChannelClosed(str(error)) from error


def receive(channel: socket.socket) -> tuple[Header, Arrays]:
    """Read one frame. Raises ChannelClosed when the channel ends, BadFrame for anything but a whole frame."""
    start = _read(channel, len(MAGIC) + _LENGTHS.size)
    if start[: len(MAGIC)] != MAGIC:
        raise BadFrame(f"expected a frame, found {bytes(start[:4])!r}")
    header_size, payload_size = _LENGTHS.unpack(start[len(MAGIC) :])
    if header_size > MAX_HEADER:
        raise BadFrame(f"a header of {header_size} bytes")
    try:
        header = json.loads(bytes(_read(channel, header_size)))
        listed = [(str(name), str(dtype), [int(n) for n in shape]) for name, dtype, shape in header.pop("arrays")]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadFrame(f"header: {error}") from error
    if any(dtype not in _DTYPES or min(shape, default=0) < 0 for _, dtype, shape in listed):
        raise BadFrame(f"arrays {listed}")
    sizes = [math.prod(shape) * np.dtype(dtype).itemsize for _, dtype, shape in listed]
    if sum(sizes) != payload_size:
        raise BadFrame(f"arrays of {sum(sizes)} bytes in a payload of {payload_size}")
    pieces = [_read(channel, size) for size in sizes]
    arrays = {
        name: np.frombuffer(piece, dtype=dtype).reshape(shape)
        for (name, dtype, shape), piece in zip(listed, pieces, strict=True)
    }
    return header, arrays


def _read(channel: socket.socket, size: int) -> bytearray:
    """Return exactly `size` bytes."""
    found = bytearray(size)
    view, at = memoryview(found), 0
    while at < size:
        try:
            count = channel.recv_into(view[at:])
        except TimeoutError as error:
            raise ChannelStalled(str(error)) from error
        except OSError as error:
            raise ChannelClosed(str(error)) from error
        if not count:
            raise ChannelClosed("the other side has ended")
        at += count
    return found
