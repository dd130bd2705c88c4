"""Where the lines of a journal lie: in segments of some steps, each with the responses that its lines name.

    journal/steps-000001-000002.jsonl    {"response": digest, "text", "tokens"} ... {"step": 1, ...}

A segment that is done is read-only, so that checkpoints link it, and a step is read without the others.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from components.contract.errors import CorruptArtifact, InputError

JOURNAL = "journal"
"""Folder of output `rollouts`."""
MOST_SEGMENTS = 64
MAX_BYTES = 128 << 20
"""Responses that are kept of a whole run; of a longer one those of some steps, evenly over the run."""
RESPONSE = '{"response":'
NAME = re.compile(r"^steps-(\d+)-(\d+)\.jsonl$")


def segment_name(step: int, num_steps: int) -> str:
    """Return the name of the segment that holds a step, from 1."""
    size = math.ceil(num_steps / MOST_SEGMENTS)
    first = (step - 1) // size * size + 1
    return f"steps-{first:06d}-{min(num_steps, first + size - 1):06d}.jsonl"


@dataclass(frozen=True)
class Recorded:
    """A step of a journal."""

    line: Mapping[str, Any]
    responses: Mapping[str, Mapping[str, Any]]
    """Digest -> content, of the responses that were kept."""

    @property
    def is_whole(self) -> bool:
        """Whether all responses of the step were kept."""
        return all(name in self.responses for name in self.line["responses"])


class JournalFolder:
    """Reads the journal in an output `rollouts`."""

    def __init__(self, rollouts: Path) -> None:
        self._folder = rollouts / JOURNAL

    def steps(self) -> list[int]:
        """Return the steps that were recorded, ascending."""
        return sorted(int(line["step"]) for path in self._files() for line in _lines(path) if "step" in line)

    def step(self, number: int) -> Recorded | None:
        """Return a step, or None if it was not recorded."""
        for path, first, last in self._ranges():
            if first <= number <= last:
                lines = list(_lines(path))
                found = next((line for line in lines if line.get("step") == number), None)
                if found is not None:
                    return Recorded(found, {line["response"]: line for line in lines if "response" in line})
        return None

    def all(self) -> Iterator[Recorded]:
        """Yield all steps in order, one segment in memory at a time."""
        for path in self._files():
            lines = list(_lines(path))
            responses = {line["response"]: line for line in lines if "response" in line}
            yield from (Recorded(line, responses) for line in lines if "step" in line)

    def _files(self) -> list[Path]:
        return [path for path, _, _ in self._ranges()]

    def _ranges(self) -> list[tuple[Path, int, int]]:
        found = [(path, NAME.match(path.name)) for path in sorted(self._folder.glob("*.jsonl"))]
        return [(path, int(match[1]), int(match[2])) for path, match in found if match]


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    with path.open(encoding="utf-8") as stream:
        for number, text in enumerate(stream, start=1):
            try:
                line = json.loads(text)
            except ValueError as error:
                raise CorruptArtifact(f"{path}:{number}: not a line of a journal: {error}") from error
            if not isinstance(line, dict):
                raise InputError(f"{path}:{number}: not a line of a journal")
            yield line
