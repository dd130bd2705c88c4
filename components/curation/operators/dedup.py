"""Duplicates within the dataset: the first copy stays."""

from __future__ import annotations

import hashlib
import unicodedata
from typing import TYPE_CHECKING

from components.contract.params import Params
from components.curation.candidate import Candidate
from components.curation.similarity.near_config import NearConfig, NearSwitch
from components.tasks.row_kinds.labelled import COMPLETION, LABEL
from components.tasks.row_kinds.preferences import CHOSEN, REJECTED
from components.tasks.row_kinds.stepwise import COMPLETIONS, LABELS

if TYPE_CHECKING:
    from components.curation.similarity.neighbours import Sketch

RESPONSES = ((CHOSEN, REJECTED), (COMPLETION, LABEL), (COMPLETIONS, LABELS))
"""Columns of responses, by kind of rows: a prompt may have several, and one response labels that contradict."""


class DedupConfig(Params):
    """Which duplicates are removed."""

    exact: bool = True
    """Remove rows with the prompt, responses and text of an earlier one; runs of white space count as one space."""
    near: NearSwitch = None
    """Also remove near duplicates, by MinHash; off unless configured, since templated prompts are all alike."""


def normalised(text: str) -> str:
    """Return text in Unicode form NFC with white space runs as one space, for exact comparison."""
    return " ".join(unicodedata.normalize("NFC", text).split())


class ExactDuplicates:
    """Rejects copies of kept rows. Holds 16 bytes per row."""

    def __init__(self) -> None:
        self._seen: set[bytes] = set()

    def reject(self, draft: Candidate) -> str | None:
        """Return "duplicate" for a copy of a kept row."""
        return "duplicate" if content_key(draft) in self._seen else None

    def keep(self, draft: Candidate) -> None:
        """Remember a kept row."""
        self._seen.add(content_key(draft))


class NearDuplicates:
    """Rejects rows whose prompt or text is nearly equal to a kept one."""

    def __init__(self, config: NearConfig) -> None:
        from components.curation.similarity.neighbours import NeighbourIndex

        self._index = NeighbourIndex(config)
        self._last: tuple[Candidate, Sketch] | None = None

    def reject(self, draft: Candidate) -> str | None:
        """Return "near_duplicate" for a near duplicate of a kept row."""
        return "near_duplicate" if self._index.near(self._sketch(draft)) else None

    def keep(self, draft: Candidate) -> None:
        """Remember a kept row."""
        self._index.add(self._sketch(draft))

    def _sketch(self, draft: Candidate) -> Sketch:
        """Return the sketch of a row, made once for its test and its keeping."""
        if self._last is None or self._last[0] is not draft:
            self._last = draft, self._index.sketch(draft.content)
        return self._last[1]


def content_key(draft: Candidate) -> bytes:
    """Return 16 bytes that tell a row's prompt, responses and text, up to white space."""
    further = [draft.extras.get(name) for first, *rest in RESPONSES if first in draft.extras for name in (first, *rest)]
    parts = (draft.content, *draft.turns, draft.response or "", *map(str, further))
    return hashlib.blake2b("\0".join(map(normalised, parts)).encode(), digest_size=16).digest()
