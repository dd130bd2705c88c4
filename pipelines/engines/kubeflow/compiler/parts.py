"""A recipe that is too large for one pipeline, cut into parts: pipelines of their own that tasks of the run start.

A part is some of the stages, and waits for the parts that they need something of; parts that need nothing of one
another run side by side. Their pipelines travel in the run's own pipeline, compressed: some 30 bytes for each stage, as
tasks are alike. Imports no kfp.
"""

from __future__ import annotations

import base64
import lzma
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import ceil

from components.contract.errors import InputError
from pipelines.engines.kubeflow.compiler.bundle import MAX_BYTES
from pipelines.engines.kubeflow.compiler.size import fits
from pipelines.recipe.stage import Stage

STAGES = 200
"""Most stages of a part, and a quarter fewer where that parts fewer chains; it is cut in two where it does not fit."""

PRESET = 3
"""Of the compression: a higher one takes a hundred MB of memory, and saves little."""

CANNOT = "engine kubeflow cannot "

Compile = Callable[[Sequence[Stage]], tuple[str, int]]
"""Stages -> the pipeline of these, and the bytes of its workflow."""


class StageTooLarge(InputError):
    """A stage does not fit a pipeline of its own."""


@dataclass(frozen=True)
class Packed:
    """One part of a run."""

    number: int
    """From 1 on."""
    stages: int
    """How many it has."""
    after: tuple[int, ...]
    """Numbers of the parts that it waits for; all are smaller."""
    text: str
    """Its pipeline, as `unpack` takes it."""


def split(stages: Sequence[Stage], compile_stages: Compile) -> list[Packed]:
    """Return the parts of a recipe, each within the limits; raise StageTooLarge if a stage alone is not."""
    rest = _near_what_they_need(stages)
    chunks: list[tuple[Sequence[Stage], str]] = []
    while rest:
        end = len(rest) if len(rest) <= STAGES else _cut(rest, ceil(STAGES * 3 / 4), STAGES, wished=STAGES)
        chunks += _fitting(rest[:end], compile_stages)
        rest = rest[end:]
    number_of = {stage.name: number for number, (chunk, _) in enumerate(chunks, 1) for stage in chunk}
    found = []
    for number, (chunk, text) in enumerate(chunks, 1):
        needed = {number_of[name] for stage in chunk for name in stage.after} - {number}
        found.append(Packed(number, len(chunk), tuple(sorted(needed)), text))
    return found


def unpack(text: str) -> str:
    """Return the pipeline of a part, as YAML; raise InputError for what is none."""
    try:
        return lzma.decompress(base64.b64decode(text, validate=True)).decode()
    except (ValueError, lzma.LZMAError):
        raise InputError("--pipeline: not the pipeline of a part") from None


def _fitting(stages: Sequence[Stage], compile_stages: Compile) -> list[tuple[Sequence[Stage], str]]:
    """Return the stages in as many parts as they need."""
    text, size = compile_stages(stages)
    packed = base64.b64encode(lzma.compress(text.encode(), preset=PRESET)).decode()
    if fits(size) and len(packed) <= MAX_BYTES:
        return [(stages, packed)]
    if len(stages) == 1:
        raise StageTooLarge(f"{CANNOT}take stage {stages[0].name!r}: alone its workflow would have some {size:,} bytes")
    half = _cut(stages, ceil(len(stages) / 4), len(stages) * 3 // 4, wished=len(stages) // 2)
    return _fitting(stages[:half], compile_stages) + _fitting(stages[half:], compile_stages)


def _cut(stages: Sequence[Stage], first: int, last: int, *, wished: int) -> int:
    """Return where to cut, from `first` to `last`, so that the fewest stages before the cut are needed behind it."""
    place = {stage.name: number for number, stage in enumerate(stages)}
    last_need = {before: number for number, stage in enumerate(stages) for before in stage.after}
    change = [0] * (len(stages) + 1)
    for name, number in last_need.items():
        if name in place:
            change[place[name] + 1] += 1
            change[number + 1] -= 1
    crossing = list(accumulate(change))
    return min(range(first, last + 1), key=lambda end: (crossing[end], abs(end - wished)))


def _near_what_they_need(stages: Sequence[Stage]) -> list[Stage]:
    """Return the stages in an order in which each comes after what it needs, and soon: chains stay together.

    The recipe's own order has all cells of a matrix beside one another. This one goes to the first end (a stage that
    nothing needs), and from there on takes what has become possible last.
    """
    known = {stage.name: stage for stage in stages}
    missing = {stage.name: len(set(stage.after)) for stage in stages}
    needing: dict[str, list[str]] = {name: [] for name in known}
    for stage in stages:
        for name in set(stage.after):
            needing[name].append(stage.name)
    order: dict[str, Stage] = {}
    possible: list[str] = []

    def place(name: str) -> None:
        order[name] = known[name]
        for later in reversed(needing[name]):
            missing[later] -= 1
            if not missing[later]:
                possible.append(later)

    for end in (name for name in known if not needing[name]):
        waiting = [end]
        while waiting:
            before = [name for name in known[waiting[-1]].after if name not in order]
            if before and waiting[-1] not in order:
                waiting += reversed(before)
            elif (name := waiting.pop()) not in order:
                place(name)
        while possible:
            if (name := possible.pop()) not in order:
                place(name)
    return list(order.values())
