"""Threads that take turns at every call to the storage, in an order that a test decides."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from components.runtime.store.blobs import Blob, Blobs

DAY = 86_400.0
STEPPED = ("read", "write", "create", "upload", "holds", "list", "delete", "hash", "touch", "move")


class Turns:
    """Lets one of several threads go on at a time; `order` says which one, and then they all run to their end."""

    def __init__(self, order: list[int], threads: int) -> None:
        self._order, self._left = list(order), set(range(threads))
        self._changed = threading.Condition()
        self._mine = threading.local()

    def run(self, works: list[Any]) -> list[BaseException]:
        """Run all works, each in a thread of its own; return what they raised."""
        errors: list[BaseException] = []

        def work(number: int) -> None:
            self._mine.number = number
            try:
                works[number]()
            except BaseException as error:
                errors.append(error)
            finally:
                with self._changed:
                    self._left.discard(number)
                    self._changed.notify_all()

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(works))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive(), "a deadlock"
        return errors

    def wait(self) -> None:
        """Wait for this thread's next turn."""
        number = getattr(self._mine, "number", 0)  # the first work is the one that starts threads of its own
        with self._changed:
            while True:
                while self._order and self._order[0] not in self._left:
                    self._order.pop(0)
                if not self._order or self._order[0] == number:
                    break
                self._changed.wait(10)
            if self._order:
                self._order.pop(0)
            self._changed.notify_all()


class SteppedBlobs:
    """Blobs that wait for their turn before each call; what was there before `born` looks a day older than it is."""

    def __init__(self, blobs: Blobs, turns: Turns, aged: set[str]) -> None:
        self._blobs, self._turns, self._aged = blobs, turns, aged

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._blobs, name)
        if name not in STEPPED:
            return found

        def step(*arguments: Any, **options: Any) -> Any:
            self._turns.wait()
            if name in ("write", "touch", "create"):
                self._aged.discard(arguments[0])
            if name == "upload":
                self._aged.difference_update(f"{arguments[0]}/{entry.path}" for entry in arguments[2])
            answer = found(*arguments, **options)
            return self._dated(answer) if name == "list" else answer

        return step

    def _dated(self, listed: Iterator[Blob]) -> Iterator[Blob]:
        aged = set(self._aged)
        return iter(
            [replace(b, stored=b.stored - DAY, modified=b.modified - DAY) if b.key in aged else b for b in listed]
        )
