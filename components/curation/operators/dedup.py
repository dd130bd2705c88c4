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

MANY_RIGHT = frozenset({"reasoning_gym", "unlabelled"})
"""Verifiers of items whose answer is one of many, or none."""
CONTRADICTION = "contradiction"
"""Why a row is dropped that asks what an earlier one asks, and has another answer."""
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
    """Rejects copies of kept rows. Holds 24 bytes per row, and the answers of prompts that have several."""

    def __init__(self) -> None:
        self._seen: dict[bytes, bytes] = {}
        self.other_answers: dict[bytes, list[str]] = {}
        """By `content_key` of a kept row: the further answers that rejected copies of it give, each once."""

    def reject(self, draft: Candidate) -> str | None:
        """Return "duplicate" for a copy of a kept row, and "contradiction" for one with another answer."""
        key = content_key(draft)
        answer = self._seen.get(key)
        if answer is None:
            return None
        if draft.item is None or answer == _answer_key(draft):
            return "duplicate"
        others = self.other_answers.setdefault(key, [])
        if normalised(draft.item.answer) not in map(normalised, others):
            others.append(draft.item.answer)
        return CONTRADICTION

    def keep(self, draft: Candidate) -> None:
        """Remember a kept row."""
        self._seen[content_key(draft)] = _answer_key(draft)


def _answer_key(draft: Candidate) -> bytes:
    """Return 8 bytes that tell the answer where a row has the only right one; generated tasks have one of many."""
    several = draft.item is None or draft.item.verifier in MANY_RIGHT or "aliases" in draft.item.data
    answer = "" if several or draft.item is None else draft.item.answer
    return hashlib.blake2b(normalised(answer).encode(), digest_size=8).digest()


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
