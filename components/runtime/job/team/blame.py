"""Which of several failures of ranks is the cause: the others only report that a peer is gone or did not come."""

from __future__ import annotations

import re
from collections.abc import Mapping

_CONSEQUENCE = re.compile(
    r"connection (closed|reset|refused|was likely closed)|broken pipe|socket (closed|timeout)|timed? ?out|"
    r"DistNetworkError|DistStoreError|DistBackendError|ncclRemoteError|ncclSystemError|NCCL (communicator|error)|"
    r"remote process exited|recvValue failed|heartbeat|Gloo connectFullMesh failed",
    re.IGNORECASE,
)
_TIMEOUT = re.compile(r"timed? ?out", re.IGNORECASE)


def is_consequence(message: str) -> bool:
    """Return whether a rank's error only says that the connection to others broke, or that they did not come."""
    return _CONSEQUENCE.search(message) is not None


def is_timeout(message: str) -> bool:
    """Return whether a rank's error says that it waited for others in vain."""
    return _TIMEOUT.search(message) is not None


def elsewhere(waiting: str, places: Mapping[int, str], world: int) -> str:
    """Return which ranks were not at `waiting`, where the first one waited in vain, with their places; "" for none."""
    others = [f"rank {rank} of {world} was at {place}" for rank, place in sorted(places.items()) if place != waiting]
    return f"{'; '.join(others)}, while the first rank waited at {waiting}" if others else ""
