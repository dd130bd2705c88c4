"""Worked solutions whose steps are to be put in order: the other process task of MR-RLVR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pydantic import Field

from components.tasks.seeds import derive_rng
from components.tasks.source import BadRow, SourceRequest, SourceRow, SourceRows
from components.tasks.worked import Worked, WorkedConfig, worked

VERIFIER = "permutation"
NAMES = "abcdefghijklmnopqrstuvwxyz"


class ShuffleStepsConfig(WorkedConfig):
    """How long a solution may be."""

    most: int = Field(default=8, ge=2, le=len(NAMES))
    """Most steps; longer solutions make no exercise."""

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def shuffle_steps(request: SourceRequest, *, config: ShuffleStepsConfig) -> SourceRows:
    """Write the prompt and its steps in any order: `4 + 7 - 3 = a:11-3=8 b:4+7=11`; the answer is `ba`.

    Every order is as likely as another, the right one included. Verifier `permutation` scores how near an order is.
    """
    found, inner = worked(request, config, "shuffle_steps")
    origin = {"source": "shuffle_steps", "expert": config.expert.name, "of": dict(inner.origin)}
    kept = config.model_dump(mode="json", include={"between", "most"})
    return SourceRows(_rows(found, config, request.seed), {**origin, "config": kept})


def _rows(found: Iterator[Worked | BadRow], config: ShuffleStepsConfig, seed: int) -> Iterator[SourceRow | BadRow]:
    for one in found:
        if isinstance(one, BadRow):
            yield one
            continue
        if len(one.steps) > config.most or len(set(one.steps)) < len(one.steps):
            continue  # of two equal steps neither comes first
        order = list(range(len(one.steps)))
        derive_rng(seed, "shuffle_steps", one.row.prompt).shuffle(order)
        shown = " ".join(f"{name}:{one.steps[place]}" for name, place in zip(NAMES, order, strict=False))
        answer = "".join(NAMES[order.index(place)] for place in range(len(order)))
        data: dict[str, Any] = {"steps": len(order)}
        prompt = f"{one.row.prompt.strip()} {shown}"
        yield replace(one.row, id=None, prompt=prompt, answer=answer, verifier=VERIFIER, data=data)
