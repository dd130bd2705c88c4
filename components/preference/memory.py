"""Memory of preference optimisation: a training whose examples hold several responses, and a reference before it."""

from __future__ import annotations

from collections.abc import Iterator

from components.contract.job import Resources
from components.contract.memory import MemoryEstimate, Moment, Need
from components.modeling.estimates.memory_needs import BYTES, layer_per_token, logits_need
from components.modeling.estimates.supervised_memory import supervised_memory
from components.modeling.models.model_sizes import ModelSizes
from components.preference.params import PreferenceParams

RESPONSES = {"pairs": 2, "labels": 1, "lists": 4}
"""Responses of an example; of a list, what data sets have (UltraFeedback: 4)."""


def training_memory(params: PreferenceParams, model: ModelSizes | None, resources: Resources) -> MemoryEstimate | None:
    """Return the memory of one process; None if the model's sizes are unknown."""
    return supervised_memory(as_sequences(params), model, resources)


def as_sequences(params: PreferenceParams) -> PreferenceParams:
    """Return the parameters of a training whose sequences are single responses and whose passes are as large."""
    each = RESPONSES[params.comparing.compares]
    least = each * params.max_tokens  # the responses of one example are in one pass
    changed = {"batch_size": each * params.batch_size, "micro_batch_tokens": max(params.micro_batch_tokens, least)}
    return params.model_copy(update=changed)


def reference_needs(port: str, sizes: ModelSizes, params: PreferenceParams, resources: Resources) -> Iterator[Need]:
    """Yield the memory of the reference at input `port`: whole in every process, and only before the training."""
    tokens = as_sequences(params).micro_batch_tokens
    size = BYTES[params.dtype]
    yield Need(f"weights of a {port}", size * sizes.parameters, moment=Moment.BETWEEN)
    layer = layer_per_token(sizes, params.max_tokens, cpu=not resources.gpus)
    yield Need(f"passes of a {port}", size * layer * tokens, moment=Moment.BETWEEN)
    yield logits_need(sizes, tokens, Moment.BETWEEN, resources)
