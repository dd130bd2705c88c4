"""Quarantine: damaged bytes are moved here with the reason; nothing here is ever deleted.

quarantine/<time>-<random>/reason.json and quarantine/<time>-<random>/<its former key>
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable

from components.contract.errors import StoreUnavailable
from components.runtime.store.blobs import Blobs
from components.runtime.store.records import seal

QUARANTINE = "quarantine"
Tell = Callable[[str], None]


def set_aside(blobs: Blobs, key: str, reason: str, tell: Tell) -> bool:
    """Move a record or a tree to quarantine with the reason, and report it in one line.

    Returns False, also reported, if this process may not remove it: its replacement then overwrites it in place.
    """
    place = f"{QUARANTINE}/{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{uuid.uuid4().hex[:8]}"
    try:
        blobs.write(f"{place}/reason.json", seal({"key": key, "reason": reason, "time": time.time()}))
        blobs.move(key, f"{place}/{key}")
    except StoreUnavailable as error:
        tell(f"{blobs.address(key)}: {reason}; it could not be set aside ({error})")
        return False
    tell(f"{blobs.address(key)}: {reason}; set aside in {blobs.address(place)}")
    return True
