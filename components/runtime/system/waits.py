"""How long to wait, as people set it in the environment."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from components.contract.errors import InputError

LONGEST = timedelta.max.total_seconds()


def seconds_of(name: str, default: float, environ: Mapping[str, str]) -> float:
    """Return the seconds in the variable `name`, else the default. Raises InputError unless they are above 0."""
    given = environ.get(name)
    if given is None:
        return default
    try:
        seconds = float(given)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < LONGEST:
        raise InputError(f"{name} is {given!r}; set a number of seconds above 0, such as {default:g}")
    return seconds
