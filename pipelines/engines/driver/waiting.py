"""Why a stage does not run at the moment, beside its driver's record: who follows it writes it, the live view shows it.

driver/<run>/<stage>.waits.json    a name of its own, since no stage's name holds a dot
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from components.runtime.store import Store
from pipelines.engines.driver.causes import Cause


class Waiting(BaseModel):
    """What is waited for."""

    model_config = ConfigDict(extra="ignore")

    text: str = ""
    """Empty while the stage runs."""
    limited: Cause | None = None
    """Which limit counts meanwhile, if one does."""
    of: str = ""
    """The work that waits."""
    since: float = 0.0
    """From when that limit counts; whoever follows the work next goes on counting."""


class Notes:
    """Keeps what a stage waits for."""

    def __init__(self, store: Store, run_id: str, stage: str, now: Callable[[], float] = time.time) -> None:
        self._store, self._key, self._now = store, notes_key(run_id, stage), now
        self.waiting = waiting(store, run_id, stage)

    def tell(self, text: str, *, limited: Cause | None = None, of: str = "") -> bool:
        """Note why nothing runs, "" if it does; return whether that is news."""
        before = self.waiting
        goes_on = limited is not None and (before.limited, before.of) == (limited, of)
        since = before.since if goes_on else self._now()
        if (goes_on and text == before.text) or (limited is None and (text, None) == (before.text, before.limited)):
            return False
        self.waiting = Waiting(text=text, limited=limited, of=of, since=since)
        self._store.put(self._key, self.waiting.model_dump(mode="json"), overwrite=True)
        return text != before.text


def notes_key(run_id: str, stage: str) -> str:
    """Return the key of a stage's note."""
    return f"driver/{run_id}/{stage}.waits.json"


def waiting(store: Store, run_id: str, stage: str) -> Waiting:
    """Return what a stage waits for; nothing if nobody has noted anything, or what is there cannot be read."""
    found: dict[str, Any] | None = store.recover(notes_key(run_id, stage))
    try:
        return Waiting.model_validate(found or {})
    except ValidationError:
        return Waiting()
