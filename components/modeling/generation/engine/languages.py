"""Constrained draws of an engine: what it is told of the languages of its responses.

Imports nothing heavy at the top: vLLM's own process imports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from components.contract.errors import InputError

if TYPE_CHECKING:
    from components.modeling.generation.constraint import Constraint
    from components.modeling.generation.engine.orders import Order
    from components.modeling.generation.engine.requests import Request
    from components.modeling.generation.sampling import LogitsProcessor

STRUCTURED = "structured"
"""Names the languages of a constrained draw and, among an engine's options, that there will be such draws."""
LANGUAGES = "languages"
"""Array [Q] of a constrained draw: the place of each request's language in `structured`."""


def constraint_of(processor: LogitsProcessor | None) -> Constraint | None:
    """Return what an engine can be told of a processor; raise InputError for one that changes logits on the way."""
    from components.modeling.generation.constraint import Constraint

    if processor is None or isinstance(processor, Constraint):
        return processor
    raise InputError("logits cannot be changed on the way in another process; set `sampler: native`")


def check_constrained(
    constraint: Constraint | None, options: Mapping[str, Any], prefixes: Sequence[Sequence[int]] | None
) -> None:
    """Raise InputError for a constrained draw that an engine with these options cannot do."""
    if constraint is None:
        return
    if prefixes is not None:
        raise InputError("an engine draws whole responses of a language, none behind a prefix; set `sampler: native`")
    if not options.get(STRUCTURED):
        raise InputError("this engine was started without a tokenizer, which constrained decoding needs")


def told(order: Order, constraint: Constraint | None, requests: Sequence[Request], num_samples: int) -> Order:
    """Return an order with the languages of its responses, and for each request the place of its own."""
    if constraint is None:
        return order
    found, places = constraint.structured_outputs()
    own = [places[request.rows[0] // num_samples] for request in requests if request.limit]
    arrays = {**order.arrays, LANGUAGES: np.array(own, dtype=np.int32)}
    return replace(order, arrays=arrays, settings={**order.settings, STRUCTURED: found})
