"""Words under constraints, each of which counts for itself: one look checks any of them, and only a plan keeps all.

The first letter is the sum of all given ones, and every further letter follows from the one before it. Who begins with
a guess can keep all constraints but the last one; who works the sums out from the end first keeps all.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from components.contract.errors import InputError
from components.tasks.domains.worlds.chained_words import ALPHABET, sums_from_the_end, word_of
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows

VERIFIER = "soft_constraints"


class SoftConstraintsConfig(SourceConfig):
    """How long the words are, and of how many letters."""

    endless: ClassVar[bool] = True
    least: int = Field(default=5, ge=2, le=20)
    """Fewest letters of a word, each with a constraint of its own."""
    most: int = Field(default=5, ge=2, le=20)
    """Most letters: with `letters` the knob of difficulty."""
    letters: int = Field(default=5, ge=2, le=len(ALPHABET))
    """Size of the alphabet, in which letters are moved on in a circle: a guess is right for one in so many."""
    seed: int | None = None
    """Seed of the words; the stage's own when none is given."""

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def soft_constraints(request: SourceRequest, *, config: SoftConstraintsConfig) -> SourceRows:
    """Generate items without end: `chain: dbe` with the answer `dae`, the sums of the letters from each on.

    With a = 0, five letters: e = e; a = b + e; d = d + a. `data` holds `given` and `letters`. Source: RLMT
    (arXiv:2509.20357), which learns from a reward model of open chat; here the gold score can be computed.
    """
    if config.least > config.most:
        raise InputError(f"source soft_constraints: least {config.least} is above most {config.most}")
    seed = request.seed if config.seed is None else config.seed
    origin = {
        "source": "soft_constraints",
        "seed": seed,
        "config": config.model_dump(mode="json", exclude={"seed"}),
    }
    return SourceRows(_rows(config, derive_rng(seed, "soft_constraints"), request.limit), origin)


def _rows(config: SoftConstraintsConfig, rng: random.Random, limit: int) -> Iterator[SourceRow]:
    for index in range(limit):
        values = [rng.randrange(config.letters) for _ in range(rng.randint(config.least, config.most))]
        given = word_of(values)
        data: dict[str, Any] = {"given": given, "letters": config.letters}
        answer = word_of(sums_from_the_end(values, config.letters))
        where = f"soft_constraints[{index}]"
        yield SourceRow(where, prompt=f"chain: {given}", answer=answer, verifier=VERIFIER, data=data)
