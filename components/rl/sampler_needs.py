"""What the operators of an rl stage need of its sampler. Does not import torch: checking recipes imports it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from components.contract.backends import Backends
from components.contract.operators import Bound
from components.rl.params import RLParams

CONSTRAINED = ("rollout", "constrained")
"""Constrains, though its config does not say so: the word came later, and records speak of its code as it is."""


def refuses_backends(params: RLParams, backends: Backends) -> Iterator[str]:
    """Yield a line for operators that the sampler cannot serve."""
    if backends.sampler != "native" and (line := processor_refusal(params.operators())):
        yield line


def processor_refusal(operators: Iterable[Bound]) -> str | None:
    """Return why an engine in another process cannot draw for these operators, in one line; None if it can."""
    needing = (bound for bound in operators if getattr(bound.config, "needs_processor", False))
    users = sorted({bound.name for bound in needing if not _constrains(bound)})
    if not users:
        return None
    return (
        f"{', '.join(users)} changes logits before each token, which vLLM cannot do; "
        "set `backend: {sampler: native}` on the stage"
    )


def constrains(params: RLParams) -> bool:
    """Return whether an operator draws responses of a language only, for which vLLM needs the tokenizer."""
    return any(map(_constrains, params.operators()))


def _constrains(bound: Bound) -> bool:
    return getattr(bound.config, "constrains", False) or (bound.slot.name, bound.name) == CONSTRAINED
