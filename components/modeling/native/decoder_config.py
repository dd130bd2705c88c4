"""DecoderConfig: the sizes of a native decoder, and what its blocks are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from components.modeling.models.model_sizes import ModelSizes
from components.modeling.native.rotary import Rope


@dataclass(frozen=True, kw_only=True)
class DecoderConfig:
    """Sizes and variants of a decoder; the defaults are Llama's."""

    vocab_size: int
    width: int
    layers: int
    heads: int
    kv_heads: int
    head_width: int
    mlp_width: int
    rope: Rope
    norm_eps: float
    tie_embeddings: bool
    max_positions: int
    attention_bias: bool = False
    """Whether query, key and value projections have a bias (Qwen2)."""
    head_norm: bool = False
    """Whether queries and keys are RMS-normalised per head (Qwen3, Gemma 3)."""
    norm: Literal["rms", "rms_from_one"] = "rms"
    """Whether a norm multiplies by its weight, or by 1 + weight (Gemma)."""
    activation: Literal["swiglu", "geglu"] = "swiglu"
    """The gate of the MLP: silu, or gelu by its tanh approximation (Gemma)."""
    post_norms: bool = False
    """Whether what attention and MLP add to the residual stream is normalised (Gemma)."""
    scale_embeddings: bool = False
    """Whether embeddings are multiplied by sqrt(width) (Gemma)."""
    query_scale: float | None = None
    """Factor on the products of queries and keys; None for 1 / sqrt(head_width)."""
    attention_cap: float | None = None
    """Attention scores s become cap * tanh(s / cap) (Gemma 2)."""
    logit_cap: float | None = None
    """The same for logits."""
    windows: tuple[int | None, ...] = ()
    """How many tokens back each layer sees, itself included; None for all. (): every layer sees all."""
    local_rope: Rope | None = None
    """Rotary positions of the layers with a window, if they have their own (Gemma 3)."""
    stored_fused: bool = False
    """Whether files hold queries, keys and values as one matrix, and gate and up too (Phi-3)."""
    initializer_range: float = 0.02

    @classmethod
    def sized(cls, sizes: ModelSizes, **variants: Any) -> DecoderConfig:
        """Return a config of these sizes; `variants` are the other fields."""
        return cls(
            vocab_size=sizes.vocab,
            width=sizes.width,
            layers=sizes.layers,
            heads=sizes.heads,
            kv_heads=sizes.kv_heads,
            head_width=sizes.head_width,
            mlp_width=sizes.mlp_width,
            tie_embeddings=sizes.tied,
            **variants,
        )

    def window(self, layer: int) -> int | None:
        """Return how many tokens back a layer sees, itself included; None for all."""
        return self.windows[layer] if self.windows else None

    @property
    def turning(self) -> int:
        """Return how many of a head's features rotary positions turn, its first ones."""
        return int(self.head_width * self.rope.share)

    @property
    def query_gain(self) -> float:
        """Return the factor on the products of queries and keys beside 1 / sqrt(head_width)."""
        return 1.0 if self.query_scale is None else self.query_scale * self.head_width**0.5
