"""Memory of a distillation's teacher: frozen, loaded whole in every process, one pass beside each of the model's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from components.contract.job import Resources
from components.contract.memory import Moment, Need
from components.modeling.estimates.memory_needs import BYTES, layer_per_token, logits_need
from components.modeling.models.model_sizes import ModelSizes


def teacher_needs(port: str, sizes: ModelSizes, params: Any, resources: Resources) -> Iterator[Need]:
    """Yield the memory of the teacher at input `port`; `params` have SupervisedConfig's fields and `dtype`."""
    tokens = max(params.max_tokens, min(params.micro_batch_tokens, params.batch_size * params.max_tokens))
    name = port.removesuffix("s")
    yield Need(f"weights of a {name}", BYTES[params.dtype] * sizes.parameters)
    layer = layer_per_token(sizes, params.max_tokens, cpu=not resources.gpus)
    yield Need(f"passes of a {name}", BYTES[params.dtype] * layer * tokens, moment=Moment.PASS)
    yield logits_need(sizes, tokens, Moment.PASS, resources)
