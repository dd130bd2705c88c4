"""Beams on two supports: which reaction forces carry the loads, in exact fractions of P.

`beam 6: pin 0, roller 6, 3P at 2, 4P at 5` has the answer `8/3 13/3`. Two axes of shift are settings of their own: more
loads than were trained (composition), and supports that are not at the ends (topology). Source: BeamPERL (2026).
"""

from __future__ import annotations

import random
from typing import Literal, Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.tasks.domains.made import Made, MadeConfig, made_rows
from components.tasks.domains.worlds.beams import Beam
from components.tasks.source import SourceRequest, SourceRows

VERIFIER = "coefficients"
WORDINGS = (
    "beam {length}: pin {pin}, roller {roller}, {loads}",
    "A beam of length {length} rests on a pin at {pin} and a roller at {roller} and carries {loads}. Reactions?",
    "Pin at {pin}, roller at {roller}, beam from 0 to {length}: what do they carry under {loads}?",
)


class BeamsConfig(MadeConfig):
    """How many loads, and where the supports stand."""

    min_loads: int = Field(default=1, ge=1, le=12)
    """Fewest loads."""
    max_loads: int = Field(default=2, ge=1, le=12)
    """Most loads: an axis of shift, and the knob of difficulty."""
    supports: Literal["ends", "moved"] = "ends"
    """Both at the ends, or at least one of them elsewhere; loads may then hang over."""
    min_length: int = Field(default=2, ge=2, le=100)
    """Shortest beam."""
    max_length: int = Field(default=6, ge=2, le=100)
    """Longest beam."""
    max_load: int = Field(default=5, ge=1, le=1000)
    """Largest load, as a multiple of P."""
    wordings: int = Field(default=1, ge=1, le=len(WORDINGS))
    """How many ways of asking are drawn from."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        self.check_order("beams", ("min_loads", "max_loads"), ("min_length", "max_length"))
        if self.max_loads > self.min_length + 1:
            raise InputError(f"source beams: a beam of {self.min_length} has no {self.max_loads} places for loads")
        return self

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def beams(request: SourceRequest, *, config: BeamsConfig) -> SourceRows:
    """Draw beams without end, their loads at different places. The answer is the pin's reaction, then the roller's."""

    def draw(rng: random.Random) -> Made:
        length = rng.randint(config.min_length, config.max_length)
        pin, roller = _supports(length, config, rng)
        places = sorted(rng.sample(range(length + 1), rng.randint(config.min_loads, config.max_loads)))
        beam = Beam(pin, roller, tuple((rng.randint(1, config.max_load), place) for place in places))
        loads = ", ".join(f"{size}P at {place}" for size, place in beam.loads)
        given = {"length": length, "pin": pin, "roller": roller}
        prompt = rng.choice(WORDINGS[: config.wordings]).format(**given, loads=loads)
        data = {**given, "loads": [list(load) for load in beam.loads]}
        return Made(WORDINGS[0].format(**given, loads=loads), prompt, " ".join(map(str, beam.reactions())), data)

    return made_rows("beams", request, config, VERIFIER, draw)


def _supports(length: int, config: BeamsConfig, rng: random.Random) -> tuple[int, int]:
    """Return where pin and roller stand, the pin on the left."""
    ends = (0, length)
    if config.supports == "ends":
        return ends
    while True:
        left, right = sorted(rng.sample(range(length + 1), 2))
        if (left, right) != ends:
            return left, right
