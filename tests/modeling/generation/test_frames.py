"""Frames: what is sent comes back, and nothing but a whole frame is taken for one."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from components.modeling.generation.engine import frames

BY_HAND = (
    b'PTF1\x3c\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00{"call": "load", "n": 3, "arrays": [["a", "int32", [1, 2]]]}'
    b"\x01\x00\x00\x00\xfe\xff\xff\xff"
)
"""Header of 60 bytes, then [[1, -2]]."""

arrays = st.dictionaries(
    st.text(min_size=1, max_size=5),
    st.tuples(st.sampled_from(["int32", "int64", "float32", "bool"]), st.lists(st.integers(0, 3), max_size=3)).map(
        lambda kind: (np.arange(np.prod(kind[1], dtype=int)) % 2).reshape(kind[1]).astype(kind[0])
    ),
    max_size=3,
)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def through(data: bytes) -> tuple[frames.Header, frames.Arrays]:
    """Read a frame from bytes after which the other side ends."""
    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            theirs.sendall(data)
        return frames.receive(ours)


def test_a_frame_by_hand(pair: tuple[socket.socket, socket.socket]) -> None:
    frames.send(pair[0], {"call": "load", "n": 3}, {"a": np.array([[1, -2]], dtype=np.int32)})
    assert pair[1].recv(1000) == BY_HAND
    header, found = through(BY_HAND)
    assert header == {"call": "load", "n": 3}
    assert found["a"].tolist() == [[1, -2]] and found["a"].dtype == np.int32


@given(st.dictionaries(st.text(max_size=5).filter(lambda key: key != "arrays"), st.integers()), arrays)
def test_what_is_sent_comes_back(header: dict[str, int], sent: dict[str, np.ndarray]) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        frames.send(ours, header, sent)
        got, found = frames.receive(theirs)
    assert got == header and list(found) == list(sent)
    for name, array in sent.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array)


@given(st.integers(0, len(BY_HAND) - 1))
def test_a_frame_that_is_cut_is_an_end(size: int) -> None:
    with pytest.raises(frames.ChannelClosed):
        through(BY_HAND[:size])


@pytest.mark.parametrize(
    "old, new",
    [
        (b"PTF1", b"PTF2"),
        (b"\x3c\x00\x00\x00", b"\x3c\x00\x00\x7f"),
        (b"int32", b"objec"),
        (b"[1, 2]", b"[1, 3]"),
        (b"[1, 2]", b"[1,-2]"),
        (b'"arrays"', b'"assays"'),
        (b'{"call"', b'["call"'),
    ],
)
def test_what_is_no_frame_is_refused(old: bytes, new: bytes) -> None:
    assert old in BY_HAND
    with pytest.raises(frames.BadFrame):
        through(BY_HAND.replace(old, new, 1))


def test_objects_are_not_sent(pair: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(frames.BadFrame, match="array 'a' is object"):
        frames.send(pair[0], {}, {"a": np.array([print])})


def test_sending_to_nobody_is_an_end(pair: tuple[socket.socket, socket.socket]) -> None:
    pair[1].close()
    with pytest.raises(frames.ChannelClosed):
        frames.send(pair[0], {"call": "rest"})
