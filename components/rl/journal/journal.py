"""The journal as it is written: after each step a line, and the responses that its segment does not hold yet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from components.rl.journal.lines import as_json, line_of, responses_of
from components.rl.journal.segments import JOURNAL, MAX_BYTES, RESPONSE, segment_name
from components.rl.step.experience import Experience

READ_ONLY = 0o444


class Journal:
    """Appends steps to the segments in an output folder; what an earlier attempt wrote there stays.

    Nothing reads it while the stage trains, so that neither draws nor updates depend on it.
    """

    def __init__(
        self, rollouts: Path, num_steps: int, after: Callable[[], Mapping[str, Any]], *, max_bytes: int = MAX_BYTES
    ) -> None:
        """`after` returns what a line says of the state behind its step."""
        self._folder, self._num_steps, self._after = rollouts / JOURNAL, num_steps, after
        self._max_bytes = max_bytes
        self._segment = ""
        self._known: set[str] = set()
        """Responses of the segment."""
        self._num_bytes: int | None = None
        """Of all responses; None before the first step."""

    def __call__(self, got: Experience, step: int) -> None:
        """Record a step, from 1, as it ends."""
        self._begin(segment_name(step, self._num_steps))
        found = list(responses_of(got.seen))
        line = {**line_of(got, step, [name for name, _ in found]), "after": dict(self._after())}
        fresh = {name: content for name, content in found if name not in self._known}
        lines = [f'{RESPONSE}"{name}",{content[1:]}\n'.encode() for name, content in fresh.items()]
        size = sum(map(len, lines))
        assert self._num_bytes is not None
        if self._num_bytes + size > self._max_bytes * step // self._num_steps:
            lines = []
        else:
            self._num_bytes += size
            self._known |= fresh.keys()
        with (self._folder / self._segment).open("ab") as stream:
            stream.writelines([*lines, f"{as_json(line)}\n".encode()])

    def _begin(self, segment: str) -> None:
        """Go on in a segment; the one before it is done."""
        if segment == self._segment:
            return
        self._folder.mkdir(exist_ok=True)
        done = [self._folder / self._segment] if self._segment else []
        if self._num_bytes is None:  # the first step of this attempt
            earlier = sorted(self._folder.glob("*.jsonl"))
            self._num_bytes = sum(len(text) for path in earlier for text in _responses(path))
            done = [path for path in earlier if path.name != segment]
        for path in done:
            path.chmod(READ_ONLY)
        path, self._segment = self._folder / segment, segment
        self._known = {json.loads(text)["response"] for text in _responses(path)} if path.exists() else set()


def _responses(path: Path) -> Iterator[bytes]:
    with path.open("rb") as stream:
        yield from (text for text in stream if text.startswith(RESPONSE.encode()))
