"""What differs between two listings of one thing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

from components.contract.artifacts import canonical_json
from components.contract.terminal import visible_line
from pipelines.recipe.schedule.section import Watched
from pipelines.triggers.listing import Listing

MAX_NAMED = 20
"""Names of a change that a run records; the rest is counted."""
MAX_SHOWN = 3


@dataclass(frozen=True)
class Change:
    """How what is watched differs from what the last run saw."""

    item: Watched
    listing: Listing = field(repr=False)
    new: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    @classmethod
    def between(cls, item: Watched, before: Listing, now: Listing) -> Change | None:
        """Return the change from one listing to the other; None if they are equal."""
        if before == now:
            return None
        return cls(
            item,
            now,
            tuple(sorted(now.keys() - before.keys())),
            tuple(sorted(name for name, tag in now.items() if before.get(name, tag) != tag)),
            tuple(sorted(before.keys() - now.keys())),
        )

    @property
    def words(self) -> str:
        """Return the change in one printable line."""
        parts = [
            f"{len(names):,} {word}"
            for names, word in ((self.new, "new"), (self.replaced, "replaced"), (self.gone, "gone"))
            if names
        ]
        named = [*self.new, *self.replaced, *self.gone]
        shown = ", ".join(map(visible_line, named[:MAX_SHOWN])) + (" ..." if len(named) > MAX_SHOWN else "")
        return f"{visible_line(self.item.text)}: {', '.join(parts)} ({shown})"

    def to_json(self) -> dict[str, Any]:
        """Return the change as a run records it."""
        names = {"new": self.new, "replaced": self.replaced, "gone": self.gone}
        return {
            "what": self.item.text,
            "digest": digest(self.listing),
            "count": len(self.listing),
            **{word: list(found[:MAX_NAMED]) for word, found in names.items()},
            **{f"num_{word}": len(found) for word, found in names.items()},
        }


def digest(listing: Listing) -> str:
    """Return the SHA-256 hex of a listing: of its names and tags."""
    return hashlib.sha256(canonical_json(listing)).hexdigest()
