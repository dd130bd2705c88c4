"""Content of the samples section as plain data; samples.html renders it and escapes every value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from components.contract.samples import Sample, shortened
from components.contract.terminal import visible

FULL_HEAD, FULL_TAIL = 5000, 1500
"""Characters of a text that a page holds; `posttrain samples` has the whole one."""
PREVIEW = 90
NAMES = {"system": "system", "user": "prompt", "policy": "model", "other": "other author"}


class Room:
    """Characters that a page has left for hidden text; when they are gone, texts end where they are shown."""

    def __init__(self, characters: int) -> None:
        self._left = characters

    def take(self, text: str) -> bool:
        """Take the characters of a text; False if there are not so many."""
        if len(text) > self._left:
            return False
        self._left -= len(text)
        return True


@dataclass(frozen=True)
class Said:
    """A piece of a conversation: what is shown of it, and what "show all" adds."""

    who: str
    name: str
    text: str
    rest: str = ""
    """The remaining text; empty if `text` is all that the page holds."""
    missing: int = 0
    """Characters that the page does not hold."""


@dataclass(frozen=True)
class Shown:
    """One sample, ready for the page: every text made visible and cut."""

    stage: str
    domain: str
    outcome: str
    detail: str
    step: int | None
    reward: float | None
    parts: Sequence[tuple[str, float]]
    length: int
    num_tokens: int | None
    truncated: bool
    said: Sequence[Said]
    answer: str | None
    preview: str
    place: float
    """Sorts from worst to best."""


@dataclass(frozen=True)
class Answers:
    """What one model wrote to a prompt."""

    model: int
    """Position in the list of models."""
    samples: Sequence[Shown]


@dataclass(frozen=True)
class Versus:
    """One prompt with the answers of several models."""

    prompt: Said
    domain: str
    differs: bool
    """Whether the models' verdicts differ."""
    answers: Sequence[Answers]


@dataclass(frozen=True)
class SampleBrowser:
    """Samples to filter and sort, and models side by side on the same prompts."""

    kind: ClassVar = "samples"
    samples: Sequence[Shown]
    total: int
    """Samples that the run has kept."""
    models: Sequence[str]
    versus: Sequence[Versus]

    def values(self, name: str) -> list[str]:
        """Return the distinct values of a field of the samples, in order of appearance; steps ascending."""
        found = dict.fromkeys(getattr(sample, name) for sample in self.samples)
        known = [value for value in found if value not in (None, "")]
        return [str(value) for value in (sorted(known) if name == "step" else known)]


def said(who: str, text: str, room: Room, shown: int) -> Said:
    """Return a piece with its first `shown` characters open, and the rest, as far as there is room, behind them."""
    if not text:
        return Said(who, NAMES[who], "(nothing)")
    cut = shortened(text, FULL_HEAD, FULL_TAIL)
    first, rest = visible(cut[:shown]), visible(cut[shown:])
    if rest and not room.take(rest):
        return Said(who, NAMES[who], first, missing=len(text) - shown)
    return Said(who, NAMES[who], first, rest, missing=max(0, len(text) - FULL_HEAD - FULL_TAIL))


def shown_sample(stage: str, sample: Sample, room: Room, *, prompt: int, response: int) -> Shown:
    """Return a sample for the page; `prompt` and `response` are the characters open at first."""
    pieces = sample.pieces()
    lengths = [response if who in ("policy", "other") else prompt for who, _ in pieces]
    reward, order = sample.badness
    return Shown(
        stage=stage,
        domain=visible(sample.domain[:PREVIEW]),
        outcome=visible((sample.outcome or "")[:PREVIEW]),
        detail=visible(sample.detail[:prompt]),
        step=sample.step,
        reward=sample.reward,
        parts=[(visible(name), value) for name, value in sample.parts.items() if value is not None],
        length=sample.length,
        num_tokens=sample.num_tokens,
        truncated=sample.truncated,
        said=[said(who, text, room, length) for (who, text), length in zip(pieces, lengths, strict=True)],
        answer=None if sample.answer is None else visible(sample.answer[:prompt]),
        preview=visible(" ".join((sample.response or "")[: 4 * PREVIEW].split())[:PREVIEW]),
        place=max(-1e9, min(1e9, reward)) + order / 1e6,
    )
