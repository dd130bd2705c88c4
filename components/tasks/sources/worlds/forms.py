"""Sums of fractions whose value has many surface forms: 3/4 is 6/8, 0.75 and 75%, and the reference is one of them.

A verifier of equal texts marks most right answers wrong here; `numeric`, the verifier of the rows, reads values. A hash
of the question chooses the form of its reference, so that nothing in the prompt tells it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from typing import Any, ClassVar

from pydantic import Field, field_validator

from components.contract.errors import InputError
from components.tasks.domains.worlds.fractions import FORMS, MOST_DIGITS, Form, written
from components.tasks.seeds import derive_rng
from components.tasks.source import SourceConfig, SourceRequest, SourceRow, SourceRows

VERIFIER = "numeric"


class FormsConfig(SourceConfig):
    """Which fractions are added, and how references are written."""

    endless: ClassVar[bool] = True
    denominators: tuple[int, ...] = Field(default=(4, 5, 8, 10, 20), min_length=1)
    """Denominators of the fractions; both of a sum have the same one. Their only prime factors are 2 and 5."""
    forms: tuple[Form, ...] = Field(default=FORMS, min_length=1)
    """Forms of the references, each as often."""
    seed: int | None = None
    """Seed of the questions; the stage's own when none is given."""

    @field_validator("denominators")
    @classmethod
    def _ends(cls, denominators: tuple[int, ...]) -> tuple[int, ...]:
        for one in denominators:
            if one < 3 or 10**MOST_DIGITS % one:
                raise InputError(f"denominators: {one} is below 3, or its fractions have no end as decimals")
        return denominators

    def verifiers(self) -> tuple[str, ...]:
        """Return the verifier of all rows."""
        return (VERIFIER,)


def forms(request: SourceRequest, *, config: FormsConfig) -> SourceRows:
    """Generate items without end: `3/8+2/8` with the answer `5/8`, `10/16`, `0.625` or `62.5%`.

    `data` holds the `value` as a reduced fraction, and the `form` of the answer. Sums lie between 0 and 1.
    Source: Ma et al. 2025, General-Reasoner (arXiv:2505.14652): rules miss right answers in other forms.
    """
    seed = request.seed if config.seed is None else config.seed
    origin = {"source": "forms", "seed": seed, "config": config.model_dump(mode="json", exclude={"seed"})}
    return SourceRows(_rows(config, derive_rng(seed, "forms"), request.limit), origin)


def _rows(config: FormsConfig, rng: random.Random, limit: int) -> Iterator[SourceRow]:
    for index in range(limit):
        bottom = rng.choice(config.denominators)
        total = rng.randint(2, bottom - 1)
        first = rng.randint(1, total - 1)
        value, prompt = Fraction(total, bottom), f"{first}/{bottom}+{total - first}/{bottom}"
        form = derive_rng(0, "form", prompt).choice(config.forms)
        data: dict[str, Any] = {"value": written(value, "reduced"), "form": form}
        yield SourceRow(f"forms[{index}]", prompt=prompt, answer=written(value, form), verifier=VERIFIER, data=data)
