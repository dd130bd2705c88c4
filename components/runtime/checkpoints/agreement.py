"""The checkpoint that all ranks of a job go on from: the newest that is whole for each of them.

The first rank proposes the newest that it finds whole. The others fetch their own files of it and say what is damaged;
then the first one sets it aside and proposes the one before. Each rank verifies its own files as it fetches them, which
it will read anyway: none reads all, and none reads a file twice.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from components.contract.errors import CorruptArtifact, StageFailed
from components.runtime.checkpoints.shards import Shards
from components.runtime.store.partials import Found, Later, Partials
from components.runtime.store.quarantine import Tell


def newest_for_all(partials: Partials, into: Path, shards: Shards, later: Later | None, tell: Tell) -> Found | None:
    """Copy the checkpoint that all ranks agree on into a new folder; None if there is none; all ranks must call it.

    Files that are `later` are left out. The first rank reports damaged checkpoints.
    """
    if shards.rank:
        return _take_proposed(partials, into, shards, later)
    number, damaged = 0, set[str]()
    while True:
        found = partials.load(into, tell, later=later, without=damaged)
        shards.propose(number, found.key if found else None, agreed=found is None)
        if found is None:
            return None
        problems = shards.answers(number)
        if not problems:
            shards.propose(number + 1, found.key, agreed=True)
            return found
        shutil.rmtree(into)
        damaged.add(found.key)
        partials.leave_out(found.key, problems[0], tell)
        number += 1


def _take_proposed(partials: Partials, into: Path, shards: Shards, later: Later | None) -> Found | None:
    number, found = 0, None
    while True:
        key, agreed = shards.proposal(number)
        if agreed and key:
            return found
        shutil.rmtree(into, ignore_errors=True)  # what another rank had damaged
        if key is None:
            return None
        try:
            found = partials.take(key, into, later)
        except CorruptArtifact as error:
            shards.answer(number, str(error))
        else:
            if found is None:
                raise StageFailed(f"it does not see {key} in the store, which the first rank goes on from")
            shards.answer(number, "")
        number += 1
