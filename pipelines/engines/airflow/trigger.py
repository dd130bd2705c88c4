"""Watches what a recipe's schedule names, in Airflow's triggerer: a change becomes an event of the asset.

What was handled is in the store, so that nothing is missed while the triggerer is down, and nothing is told twice.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from components.contract.errors import PosttrainError
from components.runtime.store import open_store
from pipelines.engines.airflow.names import STORE
from pipelines.recipe.schedule.section import Watched
from pipelines.triggers.change import Change
from pipelines.triggers.listing import Lister, Listing
from pipelines.triggers.seen import Seen

WATCHER = "airflow"
"""Name under which the store keeps what Airflow's triggerer has handled."""
MAX_BACKOFF_SECONDS = 600.0


class ChangeTrigger(BaseEventTrigger):
    """Fires when an S3 prefix or a path has changed and two looks in a row saw the same."""

    def __init__(self, kind: str, text: str, poll_seconds: float) -> None:
        super().__init__()
        self.kind, self.text, self.poll_seconds = kind, text, poll_seconds

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return class and arguments, as the triggerer finds them in Airflow's database."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {"kind": self.kind, "text": self.text, "poll_seconds": self.poll_seconds},
        )

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield an event for each change, with what changed; a bucket that does not answer is asked again later."""
        item = Watched(self.kind, self.text)  # type: ignore[arg-type]
        store = open_store(os.environ.get(STORE, ""))
        lister, seen = Lister(store), Seen(store, WATCHER)
        settling: Listing | None = None
        failures = 0
        while True:
            try:
                listing = await asyncio.to_thread(lister.list, item)
                change = Change.between(item, await asyncio.to_thread(seen.of, item), listing)
            except PosttrainError as error:
                if not failures:
                    self.log.warning("%s", error)
                failures += 1
            else:
                failures = 0
                if change is not None and settling == listing:
                    self.log.info("%s", change.words)
                    yield TriggerEvent({**change.to_json(), "text": change.words})
                    # afterwards: an event that was lost with the triggerer is told again
                    await asyncio.to_thread(seen.note, item, listing)
                settling = listing if change is not None else None
            await asyncio.sleep(min(self.poll_seconds * 2.0 ** min(failures, 16), MAX_BACKOFF_SECONDS))
