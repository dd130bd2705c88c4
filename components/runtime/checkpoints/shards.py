"""Checkpoints of several ranks: each stores its own files, and the first rank's manifest commits all of them.

They go on from one that each of them finds whole: the first rank proposes, the others answer (agreement.py).

Ranks speak through the rendezvous, not through the process group, which the training uses meanwhile. A checkpoint
without the part of a rank is never committed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from threading import Event
from typing import Protocol

from components.contract.artifacts import FileEntry
from components.contract.errors import StoreUnavailable

PART, COMMITTED = "posttrain/part/{}/{}", "posttrain/committed/{}"
PROPOSAL, ANSWER = "posttrain/resume/{}", "posttrain/resume/{}/{}"
POLL_SECONDS = 0.02


class Server(Protocol):
    """The rendezvous' key-value server, which torch.distributed.Store is a client of."""

    def set(self, key: str, value: str) -> None:
        """Set a key."""
        ...

    def get(self, key: str) -> bytes:
        """Return the value of a key that is set."""
        ...

    def check(self, keys: list[str]) -> bool:
        """Return at once whether all keys are set."""
        ...

    def delete_key(self, key: str) -> bool:
        """Remove a key."""
        ...


class Shards:
    """What the ranks' writers tell one another about the checkpoint of a step."""

    def __init__(self, server: Server, rank: int, world: int) -> None:
        self._server, self.rank, self.world, self._abandoned = server, rank, world, Event()

    def propose(self, number: int, checkpoint: str | None, *, agreed: bool) -> None:
        """Tell the other ranks which checkpoint to take, None for a fresh start, and whether all have it already."""
        self._server.set(PROPOSAL.format(number), json.dumps([checkpoint, agreed]))

    def proposal(self, number: int) -> tuple[str | None, bool]:
        """Wait for what the first rank proposes."""
        self._wait(PROPOSAL.format(number), "the first rank proposed no checkpoint")
        checkpoint, agreed = json.loads(self._server.get(PROPOSAL.format(number)))
        return checkpoint, agreed

    def answer(self, number: int, problem: str) -> None:
        """Tell the first rank what is wrong with the files of this rank; empty if they are whole."""
        self._server.set(ANSWER.format(number, self.rank), problem or "-")

    def answers(self, number: int) -> list[str]:
        """Wait for all other ranks; return the problems that they have."""
        found = []
        for rank in range(1, self.world):
            self._wait(ANSWER.format(number, rank), f"rank {rank} did not say whether its part is whole")
            if (problem := self._server.get(ANSWER.format(number, rank)).decode()) != "-":
                found.append(f"rank {rank}: {problem}")
        return found

    def tell(self, step: int, entries: Iterable[FileEntry], error: str = "") -> None:
        """Tell the first rank which files this rank has stored, or why it could not."""
        part = {"error": error, "files": [entry.model_dump(mode="json") for entry in entries]}
        self._server.set(PART.format(step, self.rank), json.dumps(part))

    def gather(self, step: int) -> list[FileEntry]:
        """Return the files of all other ranks; raise StoreUnavailable if one could not store its own, or is gone."""
        found: list[FileEntry] = []
        for rank in range(1, self.world):
            key = PART.format(step, rank)
            self._wait(key, f"the checkpoint of step {step} lacks the part of rank {rank}")
            part = json.loads(self._server.get(key))
            self._server.delete_key(key)
            if part["error"]:
                raise StoreUnavailable(f"rank {rank}: {part['error']}")
            found += [FileEntry.model_validate(entry) for entry in part["files"]]
        return found

    def commit(self, step: int) -> None:
        """Tell the other ranks that a checkpoint is committed, and that what it replaced has been removed."""
        self._server.set(COMMITTED.format(step), "1")

    def wait_for(self, step: int) -> None:
        """Wait until the checkpoint of a step is committed: before, the first rank might remove newer files."""
        self._wait(COMMITTED.format(step), f"the checkpoint of step {step} was not committed")

    def abandon(self) -> None:
        """Do not wait any longer for what has not been told: a rank has ended."""
        self._abandoned.set()

    def _wait(self, key: str, problem: str) -> None:
        # by polling: a blocking call would keep other threads from this connection
        while not self._server.check([key]):
            if self._abandoned.is_set():
                raise StoreUnavailable(f"{problem}; run again: the stage goes on from the checkpoint before")
            time.sleep(POLL_SECONDS)
