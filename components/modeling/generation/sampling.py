"""Drawing tokens from logits: temperature, top-k, top-p and inverse-CDF sampling from given uniforms.

Shapes: R rows, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from components.modeling.generation.sampling_config import SamplingConfig

_BELOW_ONE = 1.0 - 2.0**-52
_UNIT = 2.0**52


@dataclass(frozen=True)
class Step:
    """Position and rows for which a logits processor is called."""

    position: int
    """Index of the response token that is about to be drawn."""
    rows: Tensor
    """[R] global row (sample) indices."""
    prompt_index: Tensor
    """[R] prompt of each row."""
    chosen: Tensor | None = None
    """[R] token of each row at the position before, prefixes included; None at the first."""


LogitsProcessor = Callable[[Tensor, Step], Tensor]


def truncate(logits: Tensor, config: SamplingConfig) -> Tensor:
    """Return logits [R, V] at the temperature of `config`, with tokens outside top-k and top-p at -inf."""
    if config.greedy or config.plain:
        return logits
    logits = logits / config.temperature
    if 0 < config.top_k < logits.shape[-1]:
        least = logits.topk(config.top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    if config.top_p < 1.0:
        ordered, order = logits.sort(dim=-1, descending=True, stable=True)
        probabilities = ordered.softmax(-1)
        # A token is dropped when those before it already hold top_p; the first is never dropped.
        dropped = _running_sum(probabilities, probabilities.dtype) - probabilities >= config.top_p
        dropped[:, 0] = False
        logits = logits.masked_fill(dropped.scatter(-1, order, dropped), float("-inf"))
    return logits


def draw(probabilities: Tensor, uniforms: Tensor) -> Tensor:
    """Return [R] tokens by inverse CDF of probabilities [R, V] at float64 uniforms [R] in [0, 1)."""
    cumulative = _running_sum(probabilities, torch.float64)
    # Strictly below the total, so that the last token of positive probability is the last one possible.
    points = uniforms.clamp(max=_BELOW_ONE).unsqueeze(-1) * cumulative[:, -1:]
    return torch.searchsorted(cumulative, points, right=True).squeeze(-1)


def _running_sum(probabilities: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the running sums [R, V] of probabilities [R, V].

    On a GPU torch has none for floating point that repeats itself, and refuses it where that is asked for.
    """
    if probabilities.is_cuda and torch.are_deterministic_algorithms_enabled():
        return exact_running_sum(probabilities).to(dtype)
    return probabilities.cumsum(-1, dtype=dtype)


def exact_running_sum(probabilities: Tensor) -> Tensor:
    """Return the running sums [R, V], in float64, of probabilities [R, V] rounded to multiples of 2^-52.

    Sums of whole numbers are exact, so their order does not matter.
    """
    return (probabilities.double() * _UNIT).round().long().cumsum(-1).double() / _UNIT
