"""Answers from outside that a job received, by request: saved at once, so that a killed job never repeats a request.

answers/<fingerprint>/<request>.json are records of work in progress, like partial checkpoints, and deleted with them.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from components.runtime.store.keys import RECORD_SUFFIX, check_digest, check_name

if TYPE_CHECKING:
    from components.runtime.store.store import Store

ANSWERS = "answers"
READERS = 16


def answers_prefix(fingerprint: str) -> str:
    """Return the key prefix of a job's answers."""
    return f"{ANSWERS}/{check_name(fingerprint, 'fingerprint')}/"


def keep_answer(store: Store, fingerprint: str, request: str, value: dict[str, Any]) -> None:
    """Save the answer to a request, which is named by its SHA-256 hex; the first answer stays."""
    store.put(f"{answers_prefix(fingerprint)}{check_digest(request)}{RECORD_SUFFIX}", value)


def kept_answers(store: Store, fingerprint: str) -> dict[str, dict[str, Any]]:
    """Return all answers of a job by request; a damaged one is set aside and must be requested again."""
    keys = list(store.keys(answers_prefix(fingerprint)))
    with ThreadPoolExecutor(READERS) as readers:
        values = readers.map(store.recover, keys)
        named = zip((key.rpartition("/")[2].removesuffix(RECORD_SUFFIX) for key in keys), values, strict=True)
        return {request: value for request, value in named if value is not None}


def drop_answers(store: Store, fingerprint: str) -> None:
    """Remove all answers of a job."""
    store.blobs.delete(sorted(store.blobs.keys(answers_prefix(fingerprint))))
