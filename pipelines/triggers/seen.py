"""What the last triggered run has seen, as a record of the store: it outlives whoever watches."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from components.runtime.lineage.heal import read_or_heal
from pipelines.recipe.schedule.section import Watched
from pipelines.triggers.listing import Listing

if TYPE_CHECKING:
    from components.runtime.store import Store


class Seen:
    """Listings that one watcher has handled."""

    def __init__(self, store: Store, watcher: str) -> None:
        """`watcher` is a name of it that survives restarts."""
        self._store, self._watcher = store, watcher

    def of(self, item: Watched) -> Listing:
        """Return the last listing that was handled; an empty one if there was none."""
        record = read_or_heal(self._store, self._key(item))
        return dict(record["listing"]) if record else {}

    def note(self, item: Watched, listing: Listing) -> None:
        """Record a listing as handled."""
        self._store.put(self._key(item), {"what": item.text, "listing": listing}, overwrite=True)

    def _key(self, item: Watched) -> str:
        digits = hashlib.sha256(f"{item.kind}\0{item.text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
        return f"triggers/{self._watcher}/{digits}.json"
