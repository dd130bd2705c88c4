"""Worked solutions with gaps to be filled in: one of the two process tasks of MR-RLVR."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.regular import RegularExpression
from components.tasks.seeds import derive_rng
from components.tasks.source import BadRow, SourceRequest, SourceRow, SourceRows
from components.tasks.worked import Worked, WorkedConfig, worked

VERIFIER = "fills"
GAP = "_"


class MaskStepsConfig(WorkedConfig):
    """What may be masked, and how much of it."""

    masked: RegularExpression = Field(default=r"(?<==)-?\d+", min_length=1)
    """Regular expression of the spans that may become gaps; by default the results of equations."""
    least: int = Field(default=1, ge=1)
    """Fewest gaps; solutions with fewer spans make no exercise."""
    most: int = Field(default=6, ge=1)
    """Most gaps. 2 to 6 in MR-RLVR, whose solutions are longer."""

    @model_validator(mode="after")
    def _ordered(self) -> MaskStepsConfig:
        if self.least > self.most:
            raise InputError(f"source mask_steps: least {self.least} is above most {self.most}")
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def mask_steps(request: SourceRequest, *, config: MaskStepsConfig) -> SourceRows:
    """Write the prompt and its solution with gaps: `4 + 7 - 3 = 4+7=_ 11-3=8`. The answer is the fills, in order.

    `data["fills"]` lists them; verifier `fills` scores the share that is right.
    """
    found, inner = worked(request, config, "mask_steps")
    origin = {"source": "mask_steps", "expert": config.expert.name, "of": dict(inner.origin)}
    kept = config.model_dump(mode="json", include={"between", "masked", "least", "most"})
    return SourceRows(_rows(found, config, request.seed), {**origin, "config": kept})


def _rows(found: Iterator[Worked | BadRow], config: MaskStepsConfig, seed: int) -> Iterator[SourceRow | BadRow]:
    for one in found:
        if isinstance(one, BadRow):
            yield one
            continue
        rng = derive_rng(seed, "mask_steps", one.row.prompt)
        cut = _cut(" ".join(one.steps), config, rng)
        if cut is None:
            continue
        text, fills = cut
        data: dict[str, Any] = {"fills": fills}
        prompt, answer = f"{one.row.prompt.strip()} {text}", " ".join(fills)
        yield replace(one.row, id=None, prompt=prompt, answer=answer, verifier=VERIFIER, data=data)


def _cut(text: str, config: MaskStepsConfig, rng: random.Random) -> tuple[str, list[str]] | None:
    """Return the text with gaps and what stood there, or None where too few spans match."""
    spans = [match for match in re.finditer(config.masked, text) if match[0].strip() and not re.search(r"\s", match[0])]
    if len(spans) < config.least:
        return None
    count = rng.randint(config.least, min(config.most, len(spans)))
    chosen = sorted(rng.sample(spans, count), key=lambda match: match.start())
    parts, end = [], 0
    for match in chosen:
        parts += [text[end : match.start()], GAP]
        end = match.end()
    return "".join([*parts, text[end:]]), [match[0] for match in chosen]
