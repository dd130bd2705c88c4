"""How much a model has to compute: floating-point operations of passes over packs, without any recomputation."""

from __future__ import annotations

from collections.abc import Sequence

from components.modeling.models.model_sizes import ModelSizes
from components.modeling.packing.packed import Packed

FORWARD, BOTH = 2, 6
"""Operations of each weight and token: a product forward, and two more backward."""


def flops(sizes: ModelSizes, lengths: Sequence[int], targets: int | None = None, *, each: int = BOTH) -> float:
    """Return the operations of causal sequences; the head's for `targets` tokens alone, all of them by default.

    Chowdhery et al. 2022 (PaLM), appendix B; attention is causal, so half of its matrix counts.
    """
    tokens = sum(lengths)
    head = sizes.vocab * sizes.width * (tokens if targets is None else targets)
    matrices = sizes.matrices * tokens
    return each * (matrices + head) + attention_flops(sizes, lengths, each=each)


def attention_flops(sizes: ModelSizes, lengths: Sequence[int], *, layers: int | None = None, each: int = BOTH) -> float:
    """Return the operations of scores and of their products with values, in all layers."""
    pairs = sum(length * length for length in lengths) / 2
    return each * 2 * (layers or sizes.layers) * sizes.heads * sizes.head_width * pairs


def group_pairs(packed: Packed) -> float:
    """Return how many pairs of tokens attend in a pack of groups, whose prompts are shared."""
    return sum(s.length * s.prefix_length + s.length * s.length / 2 for s in packed.segments)
