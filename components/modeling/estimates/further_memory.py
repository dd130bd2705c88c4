"""Memory of a stage's further models: frozen, loaded whole in every process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from components.contract.further import SCORERS
from components.contract.job import Resources
from components.contract.memory import Moment, Need
from components.modeling.estimates.memory_needs import BYTES, layer_per_token, logits_need
from components.modeling.estimates.sampling_memory import (
    DEFAULT_BATCH,
    PROMPT_TOKENS,
    SCORED_TOKENS,
    drawing_needs,
    engine_share,
)
from components.modeling.models.model_sizes import ModelSizes


def further_needs(port: str, sizes: ModelSizes, params: Any, resources: Resources) -> Iterator[Need]:
    """Yield the memory of one model of a port for further models: to score a pass of texts, or to write them.

    Texts are scored and written between training passes. Of the stage's `params` only `dtype` matters.
    """
    dtype = getattr(params, "dtype", "float32")
    name = port.removesuffix("s")
    yield Need(f"weights of a {name}", BYTES[dtype] * sizes.parameters)
    if port == SCORERS:
        layer = layer_per_token(sizes, PROMPT_TOKENS, cpu=not resources.gpus)
        yield Need(f"passes of a {name}", BYTES[dtype] * layer * SCORED_TOKENS, moment=Moment.BETWEEN)
        yield logits_need(sizes, SCORED_TOKENS, Moment.BETWEEN, resources)
        return
    yield from drawing_needs(
        sizes,
        resources,
        dtype,
        cached=DEFAULT_BATCH,
        gpus=max(1, resources.gpus // resources.ranks_per_node),
        share=engine_share(),
        awake=Moment.BETWEEN,
    )
