"""Parameters of the merge stage."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.operators import Bound, OperatorSpec
from components.contract.params import Params
from components.merge.config import MergerConfig
from components.merge.slots import MERGER

MOST_CANDIDATES = 64
"""Each is a whole model on disk."""
PLAIN = re.compile(r"[A-Za-z0-9_.=,-]{1,80}")
"""What a folder may be called."""


@dataclass(frozen=True)
class Candidate:
    """One merged model of a sweep, or the only one."""

    label: str
    """Its swept settings as text, which names its folder; empty without a sweep."""
    merger: Bound

    @property
    def config(self) -> MergerConfig:
        """Return the merger's config."""
        assert isinstance(self.merger.config, MergerConfig), "the slot checks it"
        return self.merger.config


class MergeParams(Params):
    """Parameters of the merge stage."""

    merger: Annotated[OperatorSpec, MERGER]
    """How one model is made of several."""
    sweep: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Parameter of the merger -> values to try; every combination becomes a model of output `checkpoints`, in this
    order. Empty: one model, at output `model`."""
    dtype: Literal["keep", "float32", "bfloat16", "float16"] = "keep"
    """Precision that weights are written in; keep: each tensor's own in the first model."""
    tokenizers: Literal["equal", "first"] = "equal"
    """Whether all tokenizers must have the same tokens, or may differ: the result has the first model's then, and rows
    of the embedding are merged whatever they stand for."""

    @property
    def candidates(self) -> list[Candidate]:
        """Return the models to make."""
        return [
            Candidate(_label(values, number), self._with(values))
            for number, values in enumerate(self._combinations(), 1)
        ]

    def _combinations(self) -> list[dict[str, Any]]:
        return [dict(zip(self.sweep, values, strict=True)) for values in product(*self.sweep.values())]

    def _with(self, values: Mapping[str, Any]) -> Bound:
        spec = OperatorSpec.model_validate({"name": self.merger.name, **self.merger.settings, **values})
        return spec.in_slot(MERGER).resolve()

    @model_validator(mode="after")
    def _sound(self) -> MergeParams:
        self.merger.resolve()
        if "name" in self.sweep:
            raise InputError(
                "sweep: 'name' is the merger itself, not a parameter of it; another merger is another stage"
            )
        if empty := [name for name, values in self.sweep.items() if not values]:
            raise InputError(f"sweep.{empty[0]}: no values")
        count = math.prod(map(len, self.sweep.values()))
        if count > MOST_CANDIDATES:
            raise InputError(f"sweep: {count} combinations, of which each is a whole model; at most {MOST_CANDIDATES}")
        labels = [candidate.label for candidate in self.candidates]  # resolves each merger
        if twice := [label for label in labels if labels.count(label) > 1]:
            raise InputError(f"sweep: {twice[0]} is there twice")
        return self


def _label(values: Mapping[str, Any], number: int) -> str:
    """Return swept values as text that a folder can be called, such as scale=0.5; else the number."""
    if not values:
        return ""
    text = ",".join(f"{name}={_text(value)}" for name, value in values.items())
    return text if PLAIN.fullmatch(text) else f"candidate-{number:03d}"


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "_".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value)
