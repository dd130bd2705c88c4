"""Values of options: each function reads a text, and raises argparse's error for one that does not fit."""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """Return a whole number."""
    if not text.isdecimal() or len(text) > 18:
        raise argparse.ArgumentTypeError(f"got {text[:40]!r}, expected a whole number")
    return int(text)


def positive(text: str) -> int:
    """Return a whole number of at least 1."""
    if count(text) < 1:
        raise argparse.ArgumentTypeError("expected at least 1")
    return int(text)


def steps(text: str) -> tuple[int, int]:
    """Return the first and the last step of N or A-B."""
    first, mark, last = text.partition("-")
    found = positive(first), positive(last if mark else first)
    if found[0] > found[1]:
        raise argparse.ArgumentTypeError(f"got {text[:40]!r}: it ends before it begins")
    return found


def port(text: str) -> int:
    """Return a port."""
    if count(text) > 65_535:
        raise argparse.ArgumentTypeError("expected a port up to 65535")
    return int(text)


def duration(text: str) -> float:
    """Return the seconds of a time such as 30d, 12h or 90m."""
    units = {"m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
    if text[-1:] not in units or not text[:-1].isdecimal() or len(text) > 7:
        raise argparse.ArgumentTypeError(f"got {text[:40]!r}, expected a time such as 30d, 12h or 90m")
    return int(text[:-1]) * units[text[-1]]


def grace(text: str) -> float:
    """Return the seconds of a time of at least an hour."""
    if duration(text) < 3600:
        raise argparse.ArgumentTypeError("expected at least 1h: running jobs rely on it")
    return duration(text)


def temperature(text: str) -> float:
    """Return a number from 0 to 100."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 100:
        raise argparse.ArgumentTypeError(f"got {text[:40]!r}, expected a number from 0 to 100")
    return value
