"""Bytes from inside become plain bounded values, or nothing."""

from __future__ import annotations

import pytest

from components.runtime.sandbox.values import MAX_DEPTH, NotPlain, decode, encode


@pytest.mark.parametrize("value", [None, True, 0, -1.5, "text", [1, [2]], {"a": {"b": []}}, 10**40])
def test_plain_values_come_through(value):
    assert decode(encode(value)) == value


def test_tuples_sets_ranges_and_bytes_become_lists():
    assert decode(encode([(1, 2), {3, 1}, range(2), b"\x01"])) == [[1, 2], [1, 3], [0, 1], [1]]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {(1,): 2}])
def test_what_is_no_json_is_not_encoded(value):
    with pytest.raises((TypeError, ValueError)):
        encode(value)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{",
        b"NaN",
        b"[Infinity]",
        b"1e999",
        b'"\\ud800"',
        b'{"\\udc00": 1}',
        b"\xff",
        b"9" * 5000,
        b"[" * 100000,
        b"1 2",
    ],
)
def test_hostile_bytes_are_refused(raw):
    with pytest.raises(NotPlain):
        decode(raw)


def test_depth_is_bounded():
    assert decode(b"[" * MAX_DEPTH + b"]" * MAX_DEPTH)
    with pytest.raises(NotPlain, match="nested"):
        decode(b"[" * (MAX_DEPTH + 2) + b"]" * (MAX_DEPTH + 2))
