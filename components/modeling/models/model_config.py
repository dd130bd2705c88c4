"""Sizes of a new model, free of torch so that declarations can import them."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from components.contract.errors import InputError
from components.contract.params import Params


class ModelConfig(Params):
    """Sizes of a new model."""

    vocab_size: int | None = Field(default=None, ge=1)
    """Number of token ids; unset: as many as the tokenizer has."""
    width: int = Field(default=128, ge=2)
    """Width of the residual stream."""
    layers: int = Field(default=2, ge=1)
    """Number of transformer blocks."""
    heads: int = Field(default=4, ge=1)
    """Query heads; must divide the width into even parts."""
    kv_heads: int | None = Field(default=None, ge=1)
    """Key-value heads, shared by groups of query heads (Ainslie et al. 2023); unset: one per query head."""
    mlp_width: int = Field(default=384, ge=1)
    """Inner width of the gated MLP."""
    rope_theta: float = Field(default=10000.0, gt=0)
    """Base of the rotary positions."""
    tie_embeddings: bool = True
    """Whether the output matrix is the embedding matrix."""
    max_positions: int = Field(default=2048, ge=1)
    """Longest sequence."""

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.width % (2 * self.heads):
            raise InputError(f"width {self.width} does not split into {self.heads} heads of even width")
        if self.kv_heads and self.heads % self.kv_heads:
            raise InputError(f"{self.heads} heads are not a multiple of kv_heads {self.kv_heads}")
        return self
